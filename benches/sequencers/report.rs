//! The table and the chart.

use std::path::Path;

use anyhow::Result;
use hdrhistogram::Histogram;
use plotters::prelude::SeriesLabelPosition;

use crate::chart::{self, Line, Panel};
use crate::closed_loop::Outcome;
use crate::spread::{Spread, float, short};
use crate::{Kind, SENDERS_OF_THE_SINGLE_WRITER};

/// One design with so many senders on one or on many conversations.
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) hot: bool,
    pub(crate) senders: usize,
    rates: Vec<f64>,
    latency: Option<Histogram<u64>>,
}

impl Cell {
    pub(crate) const fn new(kind: Kind, hot: bool, senders: usize) -> Self {
        Self {
            kind,
            hot,
            senders,
            rates: Vec::new(),
            latency: None,
        }
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, outcome: &Outcome) -> Result<()> {
        self.rates.push(outcome.per_second);
        match &mut self.latency {
            Some(latency) => latency.add(&outcome.latency)?,
            None => self.latency = Some(outcome.latency.clone()),
        }
        Ok(())
    }

    fn rate(&self) -> Spread {
        Spread::of(&self.rates)
    }

    fn latency_ms(&self, quantile: f64) -> String {
        let micros = self
            .latency
            .as_ref()
            .map_or(0, |latency| latency.value_at_quantile(quantile));
        usize::try_from(micros).map_or_else(|_| "–".to_owned(), |micros| short(float(micros) / 1e3))
    }
}

/// What the row lock reaches with the number of connections that suits it best.
fn best_row_lock(cells: &[Cell], hot: bool) -> f64 {
    let row_lock = cells
        .iter()
        .filter(|cell| cell.kind == Kind::RowLock && cell.hot == hot);
    row_lock.map(|cell| cell.rate().median).fold(0.0, f64::max)
}

/// A table in Markdown.
pub(crate) fn print(cells: &[Cell]) {
    println!("| conversations | design | senders | acked/s | ÷ best row lock there | ack p50 ms | p99 ms |");
    println!("|--:|---|--:|--:|--:|--:|--:|");
    for cell in cells {
        println!(
            "| {} | {} | {} | {} | {:.1} × | {} | {} |",
            if cell.hot { "1 hot" } else { "1,000" },
            cell.kind.name(),
            cell.senders,
            cell.rate(),
            cell.rate().median / best_row_lock(cells, cell.hot),
            cell.latency_ms(0.5),
            cell.latency_ms(0.99),
        );
    }
}

/// `benches/charts/sequencers.svg`
pub(crate) fn chart(cells: &[Cell]) -> Result<()> {
    let panel = |title: &str, hot: bool| Panel {
        title: title.to_owned(),
        x_name: "senders in flight".to_owned(),
        x_labels: SENDERS_OF_THE_SINGLE_WRITER.iter().map(usize::to_string).collect(),
        y_from: 100.0,
        logarithmic: true,
        legend: SeriesLabelPosition::UpperLeft,
        lines: Kind::ALL.iter().map(|kind| line(cells, *kind, hot)).collect(),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/charts/sequencers.svg");
    chart::write(
        &path,
        560,
        &[
            panel("acked messages/s, 1,000 conversations", false),
            panel("acked messages/s, one hot conversation", true),
        ],
    )?;
    println!("chart: {}", path.display());
    Ok(())
}

fn line(cells: &[Cell], kind: Kind, hot: bool) -> Line {
    let value = |senders: &usize| {
        let cell = cells
            .iter()
            .find(|cell| cell.kind == kind && cell.hot == hot && cell.senders == *senders);
        cell.map(|cell| cell.rate().median)
    };
    Line {
        name: kind.name().to_owned(),
        values: SENDERS_OF_THE_SINGLE_WRITER.iter().map(value).collect(),
    }
}
