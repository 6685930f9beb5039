//! The tables, the ratios and the chart.

use std::path::Path;

use anyhow::Result;
use hdrhistogram::Histogram;
use plotters::prelude::SeriesLabelPosition;

use crate::chart::{self, Line, Panel};
use crate::spread::{Spread, float, short};
use crate::{RowLockReport, RowLockRuns, Scenario};

/// The ratios that the project asks of itself.
const BAR_MANY: f64 = 3.0;
const BAR_HOT: f64 = 8.0;

/// One run of one scenario.
pub(crate) struct Measured {
    pub(crate) acked_per_second: usize,
    pub(crate) server_cpu_micros: f64,
    /// Server, database, load.
    pub(crate) cores: [f64; 3],
    pub(crate) pushes: usize,
    /// Microseconds.
    pub(crate) latency: Histogram<u64>,
}

impl Measured {
    fn latency_ms(&self, quantile: f64) -> String {
        millis(&self.latency, quantile)
    }
}

fn millis(latency: &Histogram<u64>, quantile: f64) -> String {
    let micros = usize::try_from(latency.value_at_quantile(quantile)).unwrap_or_default();
    short(float(micros) / 1e3)
}

/// Everything that was measured.
pub(crate) struct Report<'a> {
    pub(crate) scenarios: &'a [Scenario],
    pub(crate) row_lock: &'a RowLockReport,
}

impl Report<'_> {
    const fn row_lock_runs(&self, hot: bool) -> &RowLockRuns {
        if hot { &self.row_lock.hot } else { &self.row_lock.many }
    }

    fn row_lock(&self, hot: bool) -> Spread {
        Spread::of(&self.row_lock_runs(hot).rates)
    }

    /// Tables in Markdown.
    pub(crate) fn print(&self) {
        println!(
            "\nAt saturation, median [min–max] of {} interleaved rounds:\n",
            self.row_lock.many.rates.len()
        );
        println!(
            "| scenario | acked/s | server CPU µs per acked | cores: server / database / load | row lock, no network: \
             stored/s | ratio | bar |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|");
        for scenario in self.scenarios {
            let rate = spread(scenario, |run| float(run.acked_per_second));
            let row_lock = self.row_lock(scenario.hot);
            let cores =
                [0, 1, 2].map(|part| spread(scenario, |run| run.cores.get(part).copied().unwrap_or_default()).median);
            let [server, database, load] = cores;
            println!(
                "| {} | {rate} | {} | {server:.2} / {database:.2} / {load:.2} | {row_lock} | {:.1} × | ≥ {} × |",
                scenario.name,
                spread(scenario, |run| run.server_cpu_micros),
                rate.median / row_lock.median,
                if scenario.hot { BAR_HOT } else { BAR_MANY },
            );
        }
        for (name, hot) in [("1,000 conversations", false), ("1 hot conversation", true)] {
            let latency = &self.row_lock_runs(hot).latency;
            println!(
                "\nRow lock on {name}: p50 {} ms, p99 {} ms",
                millis(latency, 0.5),
                millis(latency, 0.99)
            );
        }
        println!("\nAt half of that, at a fixed rate, latency from the planned time:\n");
        println!(
            "| scenario | planned/s | acked/s | ack p50 ms | p99 ms | p99.9 ms | server CPU µs per acked | pushes/s |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|");
        for scenario in self.scenarios {
            if let Some((planned, run)) = &scenario.half {
                println!(
                    "| {} | {} | {} | {} | {} | {} | {:.1} | {} |",
                    scenario.name,
                    short(float(*planned)),
                    short(float(run.acked_per_second)),
                    run.latency_ms(0.5),
                    run.latency_ms(0.99),
                    run.latency_ms(0.999),
                    run.server_cpu_micros,
                    short(float(run.pushes) / (crate::WARM_UP + crate::HALF_LOAD_COUNTED).as_secs_f64()),
                );
            }
        }
    }

    /// `benches/charts/server.svg`
    pub(crate) fn chart(&self) -> Result<()> {
        let server = |scenario: &Scenario| Some(spread(scenario, |run| float(run.acked_per_second)).median);
        let row_lock = |scenario: &Scenario| Some(self.row_lock(scenario.hot).median);
        let panel = Panel {
            title: "acked messages/s".to_owned(),
            x_name: String::new(),
            x_labels: self.scenarios.iter().map(|scenario| scenario.name.to_owned()).collect(),
            y_from: 100.0,
            logarithmic: true,
            legend: SeriesLabelPosition::UpperLeft,
            lines: vec![
                Line {
                    name: "whole server over WebSocket".to_owned(),
                    values: self.scenarios.iter().map(server).collect(),
                },
                Line {
                    name: "row lock, no network".to_owned(),
                    values: self.scenarios.iter().map(row_lock).collect(),
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
