//! SVG charts: panels of lines side by side, one line a design.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::spread::float;

const PANEL_HEIGHT: u32 = 380;
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x66, 0x66, 0x66),
    RGBColor(0xe6, 0x9f, 0x00),
];

/// One line: a value for each label of the panel's x axis; `None` where it was not measured.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// One diagram.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x_name: String,
    pub(crate) x_labels: Vec<String>,
    /// Where the y axis begins and whether it is logarithmic.
    pub(crate) y_from: f64,
    pub(crate) logarithmic: bool,
    /// Where the names of the lines stand in nobody's way.
    pub(crate) legend: SeriesLabelPosition,
    pub(crate) lines: Vec<Line>,
}

/// Writes the panels side by side to an SVG file.
pub(crate) fn write(path: &Path, panel_width: u32, panels: &[Panel]) -> Result<()> {
    let width = panel_width * u32::try_from(panels.len())?;
    let root = SVGBackend::new(path, (width, PANEL_HEIGHT)).into_drawing_area();
    root.fill(&WHITE).map_err(drawing)?;
    for (area, panel) in root.split_evenly((1, panels.len())).iter().zip(panels) {
        draw(area, panel)?;
    }
    root.present().map_err(drawing)
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the chart cannot be drawn: {error}")
}

fn draw(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) -> Result<()> {
    let highest = panel
        .lines
        .iter()
        .flat_map(|line| line.values.iter().flatten())
        .copied()
        .fold(panel.y_from, f64::max);
    let x_range = -0.3..float(panel.x_labels.len().saturating_sub(1)) + 0.3;
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(&panel.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(64);
    // The two kinds of axis are two types, so the drawing is written once as a macro.
    macro_rules! draw_on {
        ($y_range:expr) => {{
            let mut chart = builder.build_cartesian_2d(x_range, $y_range).map_err(drawing)?;
            chart
                .configure_mesh()
                .x_labels(panel.x_labels.len())
                .x_label_formatter(&|x| label_at(panel, *x))
                .y_label_formatter(&|y| crate::spread::short(*y))
                .x_desc(&panel.x_name)
                .disable_x_mesh()
                .light_line_style(WHITE)
                .draw()
                .map_err(drawing)?;
            for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
                let points: Vec<(f64, f64)> = points_of(line);
                chart
                    .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))
                    .map_err(drawing)?
                    .label(&line.name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
            }
            chart
                .configure_series_labels()
                .position(panel.legend.clone())
                .background_style(WHITE.mix(0.8))
                .label_font(("sans-serif", 12))
                .draw()
                .map_err(drawing)?;
        }};
    }
    if panel.logarithmic {
        draw_on!((panel.y_from..highest * 3.0).log_scale());
    } else {
        draw_on!(panel.y_from..highest + (highest - panel.y_from) * 0.4);
    }
    Ok(())
}

fn points_of(line: &Line) -> Vec<(f64, f64)> {
    let measured = line.values.iter().enumerate();
    measured
        .filter_map(|(index, value)| value.map(|y| (float(index), y)))
        .collect()
}

/// The label at a whole number of the x axis, nothing between.
fn label_at(panel: &Panel, x: f64) -> String {
    let label = panel
        .x_labels
        .iter()
        .enumerate()
        .find(|(index, _)| (float(*index) - x).abs() < 0.01);
    label.map(|(_, label)| label.clone()).unwrap_or_default()
}
