//! Diagrams as inline SVG. Colours and the colour of text are set by the page, so that they suit light and dark.

use anyhow::anyhow;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::table::count;

const WIDTH: u32 = 560;
const HEIGHT: u32 = 300;
/// Points of one line; of a longer run each point stands for several seconds.
const POINTS_MAX: usize = 600;
/// The page finds the lines by these and gives them colours of its own.
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x00, 0x00, 0x01),
    RGBColor(0x00, 0x00, 0x02),
    RGBColor(0x00, 0x00, 0x03),
    RGBColor(0x00, 0x00, 0x04),
];
const GRID: RGBColor = RGBColor(0x00, 0x00, 0x0a);
const FONT: (&str, u32) = ("sans-serif", 13);
/// Runs below so many seconds have tenths on their axis.
const SHORT_S: f64 = 10.0;
/// Where a logarithmic axis begins if the least value is nothing, in milliseconds.
const LEAST_MS: f64 = 0.01;

/// What the x axis means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// Seconds.
    Time,
    /// Nines: 1 = 90 %, 2 = 99 %, 3 = 99.9 %.
    Percentile,
}

/// One line with its name.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// One diagram.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) axis: Axis,
    pub(super) logarithmic: bool,
    pub(super) lines: Vec<Line>,
}

impl Chart {
    /// Has it anything to show?
    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.len() < 2)
    }

    /// The SVG element.
    pub(super) fn svg(&self) -> anyhow::Result<String> {
        let mut out = String::new();
        let values = || self.lines.iter().flat_map(|line| &line.points);
        let highest = values().map(|point| point.1).fold(0.0, f64::max);
        let range = |of: fn(&(f64, f64)) -> f64| {
            let (low, high) = values()
                .map(of)
                .fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
            low..high.max(low + 1e-3)
        };
        let x = range(|point| point.0);
        {
            let area = SVGBackend::with_string(&mut out, (WIDTH, HEIGHT)).into_drawing_area();
            if self.logarithmic {
                let least = values()
                    .map(|point| point.1)
                    .filter(|y| *y > 0.0)
                    .fold(f64::MAX, f64::min);
                // Whole decades, so that there are lines to read from.
                let low = least.clamp(LEAST_MS, highest.max(LEAST_MS)).log10().floor();
                let high = highest.max(LEAST_MS).log10().ceil().max(low + 1.0);
                self.draw(&area, x, (10_f64.powf(low)..10_f64.powf(high)).log_scale())?;
            } else {
                self.draw(&area, x, 0.0..(highest * 1.1).max(1e-3))?;
            }
            area.present().map_err(drawing)?;
        }
        Ok(out)
    }

    fn draw<Y>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        x: std::ops::Range<f64>,
        y: Y,
    ) -> anyhow::Result<()>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut builder = ChartBuilder::on(area);
        builder
            .margin(6)
            .margin_right(18)
            .x_label_area_size(26)
            .y_label_area_size(58);
        let is_short = x.end - x.start < SHORT_S;
        let mut chart = builder.build_cartesian_2d(x, y).map_err(drawing)?;
        let label = |x: &f64| match self.axis {
            Axis::Time if is_short => format!("{x:.1} s"),
            Axis::Time => format!("{x:.0} s"),
            Axis::Percentile => percentile(*x),
        };
        let mut mesh = chart.configure_mesh();
        mesh.x_label_formatter(&label)
            .y_label_formatter(&|y| count(*y))
            .x_labels(8)
            .y_labels(6)
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(FONT)
            .draw()
            .map_err(drawing)?;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let series = LineSeries::new(thinned(&line.points), colour.stroke_width(2));
            chart.draw_series(series).map_err(drawing)?;
        }
        Ok(())
    }
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the chart cannot be drawn: {error}")
}

/// `90 %` at 1, `99.9 %` at 3; nothing between.
fn percentile(nines: f64) -> String {
    if (nines - nines.round()).abs() > 0.01 {
        return String::new();
    }
    let decimals = if nines < 1.5 { 0.0 } else { nines.round() - 2.0 };
    let share = 100.0 * (1.0 - 10_f64.powf(-nines.round()));
    match decimals {
        d if d < 0.5 => format!("{share:.0} %"),
        d if d < 1.5 => format!("{share:.1} %"),
        d if d < 2.5 => format!("{share:.2} %"),
        _ => format!("{share:.3} %"),
    }
}

/// At most so many points: of each part the one with the highest value, since peaks are what one looks for.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let part = points.len().div_ceil(POINTS_MAX).max(1);
    let parts = points.chunks(part);
    parts
        .filter_map(|part| part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_svg_with_its_lines_and_labels() {
        let chart = |logarithmic, axis| Chart {
            title: "t",
            axis,
            logarithmic,
            lines: vec![Line {
                name: "n",
                points: vec![(0.0, 0.0), (1.0, 12.5), (3.0, 7.0)],
            }],
        };
        for (logarithmic, axis, label) in [(false, Axis::Time, "2.0 s"), (true, Axis::Percentile, "99.9 %")] {
            let svg = chart(logarithmic, axis).svg().unwrap();
            assert!(
                svg.starts_with("<svg") && svg.contains("#000001") && svg.contains(label),
                "{svg}"
            );
        }
    }

    #[test]
    fn a_long_run_is_thinned_and_keeps_its_peaks() {
        let points: Vec<(f64, f64)> = (0..10_000)
            .map(|n| (f64::from(n), if n == 4_321 { 99.0 } else { 1.0 }))
            .collect();
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(4_321.0, 99.0)));
    }

    #[test]
    fn percentiles_are_named_as_people_say_them() {
        let named: Vec<String> = [0.0, 1.0, 2.0, 3.0, 4.0, 1.5].map(percentile).into();
        assert_eq!(named, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", ""]);
    }
}
