//! The tables, the ratios and the chart.

use std::path::Path;

use anyhow::Result;
use hdrhistogram::Histogram;
use plotters::prelude::SeriesLabelPosition;

use crate::chart::{self, Line, Panel};
use crate::place::{Measured, Place, Scenario};
use crate::rival::{Rival, Runs};
use crate::spread::{Spread, float, short};

/// Milliseconds.
fn quantile(latency: &Histogram<u64>, quantile: f64) -> f64 {
    float(usize::try_from(latency.value_at_quantile(quantile)).unwrap_or_default()) / 1e3
}

/// Everything that was measured.
pub(crate) struct Report<'a> {
    /// The first is the one that began empty.
    pub(crate) places: &'a [Place],
    pub(crate) rival: &'a Rival,
}

impl Report<'_> {
    fn scenarios(&self) -> impl Iterator<Item = &Scenario> {
        self.places.iter().flat_map(|place| &place.scenarios)
    }

    const fn row_lock(&self, hot: bool) -> &Runs {
        if hot { &self.rival.hot } else { &self.rival.many }
    }

    /// Tables in Markdown.
    pub(crate) fn print(&self) {
        let rounds = self.rival.many.rates.len();
        println!("\nAt saturation, median [min–max] of {rounds} interleaved rounds:\n");
        println!(
            "| scenario | acked/s | server CPU µs per acked | cores: server / database / load | log flushes, round trips \
             per acked | row lock, no network: stored/s | ratio |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|");
        for place in self.places {
            for scenario in &place.scenarios {
                self.print_saturation(place, scenario);
            }
        }
        self.print_ratios();
        for (name, runs) in [
            ("1,000 conversations", &self.rival.many),
            ("1 hot conversation", &self.rival.hot),
            ("1,000 conversations, one connection", &self.rival.idle),
        ] {
            if !runs.rates.is_empty() {
                let [p50, p99] = [0.5, 0.99].map(|at| short(quantile(&runs.latency, at)));
                let rate = Spread::of(&runs.rates);
                println!("\nRow lock on {name}: {rate} stored/s, p50 {p50} ms, p99 {p99} ms");
            }
        }
        self.print_fixed_rates();
    }

    fn print_saturation(&self, place: &Place, scenario: &Scenario) {
        let rate = spread(scenario, |run| float(run.acked_per_second));
        let rival = Spread::of(&self.row_lock(scenario.hot).rates);
        let [server, database, load] =
            [0, 1, 2].map(|part| spread(scenario, |run| run.cores.get(part).copied().unwrap_or_default()).median);
        let counted = [0, 1].map(|at| {
            let counts = |run: &Measured| run.counted.and_then(|counted| counted.get(at).copied());
            let counts: Option<Vec<f64>> = scenario.closed.iter().map(counts).collect();
            counts.map_or_else(|| "–".to_owned(), |counts| format!("{:.4}", Spread::of(&counts).median))
        });
        println!(
            "| {}, {} messages before | {rate} | {} | {server:.2} / {database:.2} / {load:.2} | {} | {rival} | {:.1} × |",
            scenario.name,
            place.rows,
            spread(scenario, |run| run.server_cpu_micros),
            counted.join(", "),
            rate.median / rival.median,
        );
    }

    /// Between the scenarios of one place, and between the places.
    fn print_ratios(&self) {
        let rate = |scenario: &Scenario| spread(scenario, |run| float(run.acked_per_second)).median;
        let first = |place: &Place| place.scenarios.first().map(rate);
        let Some((empty, Some(of_empty))) = self.places.first().map(|place| (place, first(place))) else {
            return;
        };
        for scenario in empty.scenarios.iter().filter(|scenario| scenario.hot) {
            println!(
                "\n{} ÷ 1,000 conversations: {:.2}",
                scenario.name,
                rate(scenario) / of_empty
            );
        }
        for filled in self.places.iter().skip(1) {
            if let Some(of_filled) = first(filled) {
                println!("\n{} messages before ÷ none: {:.2}", filled.rows, of_filled / of_empty);
            }
        }
    }

    fn print_fixed_rates(&self) {
        let idle = quantile(&self.rival.idle.latency, 0.5);
        println!("\nAt fixed rates, latency from the planned time:\n");
        println!(
            "| scenario | rate | planned/s | acked/s | ack p50 ms | p99 ms | p99.9 ms | p99 ÷ p50 | p50 ÷ row lock, one \
             connection | server CPU µs per acked | pushes/s |"
        );
        println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        for scenario in self.scenarios() {
            for (name, planned, run) in &scenario.fixed {
                let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|at| quantile(&run.latency, at));
                println!(
                    "| {} | {name} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.1} | {} |",
                    scenario.name,
                    short(float(*planned)),
                    short(float(run.acked_per_second)),
                    short(p50),
                    short(p99),
                    short(p999),
                    p99 / p50,
                    p50 / idle,
                    run.server_cpu_micros,
                    short(run.pushes_per_second),
                );
            }
        }
    }

    /// `benches/charts/server.svg`
    pub(crate) fn chart(&self) -> Result<()> {
        let server = |scenario: &Scenario| Some(spread(scenario, |run| float(run.acked_per_second)).median);
        let row_lock = |scenario: &Scenario| Some(Spread::of(&self.row_lock(scenario.hot).rates).median);
        let panel = Panel {
            title: "acked messages/s".to_owned(),
            x_name: String::new(),
            x_labels: self.scenarios().map(|scenario| scenario.name.to_owned()).collect(),
            y_from: 100.0,
            logarithmic: true,
            legend: SeriesLabelPosition::UpperLeft,
            lines: vec![
                Line {
                    name: "whole server over WebSocket".to_owned(),
                    values: self.scenarios().map(server).collect(),
                },
                Line {
                    name: "row lock, no network".to_owned(),
                    values: self.scenarios().map(row_lock).collect(),
                },
            ],
        };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/charts/server.svg");
        chart::write(&path, 760, &[panel])?;
        println!("chart: {}", path.display());
        Ok(())
    }
}

fn spread(scenario: &Scenario, value: impl Fn(&Measured) -> f64) -> Spread {
    let values: Vec<f64> = scenario.closed.iter().map(value).collect();
    Spread::of(&values)
}
