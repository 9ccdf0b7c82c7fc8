//! The report as text for a terminal, in the manner of kubectl.

use comfy_table::{Table, presets};

use super::text::visible;
use super::{Audit, State, WorkloadRow};

impl Audit {
    /// The report as a table of workloads, violations below their workload, and a line of numbers.
    #[must_use]
    pub fn to_table(&self) -> String {
        let rows = self.workloads.iter().map(cells);
        let mut lines: Vec<String> = table(["NAMESPACE", "WORKLOAD", "PODS", "STATE", "PROXY", "WHY"], rows);
        // The first line is the header; each workload has one more.
        let mut text = lines.remove(0) + "\n";
        for (line, row) in lines.iter().zip(&self.workloads) {
            text += &format!("{line}\n");
            for broken in &row.judgement.violations {
                text += &format!("  {}: {}: {}\n", broken.action, broken.rule, visible(&broken.message));
            }
        }
        text + "\n" + &self.numbers()
    }

    fn numbers(&self) -> String {
        let summary = &self.summary;
        let states: Vec<String> = State::ALL
            .iter()
            .map(|state| format!("{} {state}", summary.states[state]))
            .collect();
        let broken: Vec<String> = summary
            .violations
            .iter()
            .map(|(action, count)| format!("{count} {action}"))
            .collect();
        format!(
            "{} pods of {} workloads: {}\nbreaking a rule: {}\n{} of {} namespaces are in the mesh; {} pods passed over\n",
            summary.pods,
            summary.workloads,
            states.join(", "),
            broken.join(", "),
            summary.meshed_namespaces,
            summary.namespaces,
            summary.passed_over
        )
    }
}

fn cells(row: &WorkloadRow) -> [String; 6] {
    let judgement = &row.judgement;
    let proxy = judgement.proxy.as_ref();
    [
        visible(&row.workload.namespace),
        visible(&format!("{}/{}", row.workload.kind, row.workload.name)),
        row.count.to_string(),
        judgement.state.to_string(),
        proxy.map_or_else(
            || "-".to_owned(),
            |proxy| visible(&format!("{} {}", proxy.template, proxy.version)),
        ),
        visible(&judgement.why),
    ]
}

/// The lines of a table without borders.
fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}
