//! Combinations that hold every pair of choices of every two switches: most faults need no more than two to show.

/// Rows of choices, an index a switch, so that any two choices of different switches stand in one row together. Greedy:
/// each row begins with an uncovered pair and takes for every other switch what covers most.
pub(crate) fn all_pairs(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut open = every_pair(sizes);
    let mut rows = Vec::new();
    while let Some(&(first, second)) = open.first() {
        let mut row: Vec<Option<usize>> = vec![None; sizes.len()];
        row[first.0] = Some(first.1);
        row[second.0] = Some(second.1);
        for switch in 0..sizes.len() {
            if row[switch].is_none() {
                let covered = |choice: &usize| gain(&open, &row, (switch, *choice));
                row[switch] = (0..sizes[switch]).rev().max_by_key(covered);
            }
        }
        let row: Vec<usize> = row.into_iter().flatten().collect();
        open.retain(|(a, b)| row[a.0] != a.1 || row[b.0] != b.1);
        rows.push(row);
    }
    rows
}

/// A choice: the switch, and which of its choices.
type Choice = (usize, usize);

fn every_pair(sizes: &[usize]) -> Vec<(Choice, Choice)> {
    let mut pairs = Vec::new();
    for (a, &size_a) in sizes.iter().enumerate() {
        for (b, &size_b) in sizes.iter().enumerate().skip(a + 1) {
            pairs.extend((0..size_a).flat_map(|x| (0..size_b).map(move |y| ((a, x), (b, y)))));
        }
    }
    pairs
}

/// How many open pairs a choice would cover beside those that the row holds already.
fn gain(open: &[(Choice, Choice)], row: &[Option<usize>], choice: Choice) -> usize {
    let holds = |other: &Choice| row[other.0] == Some(other.1);
    let covered = |(a, b): &&(Choice, Choice)| (*a == choice && holds(b)) || (*b == choice && holds(a));
    open.iter().filter(covered).count()
}

#[test]
fn every_pair_of_choices_is_in_a_row() {
    let sizes = [4, 2, 3, 2, 2, 5, 1];
    let rows = all_pairs(&sizes);
    for (a, b) in every_pair(&sizes) {
        assert!(rows.iter().any(|row| row[a.0] == a.1 && row[b.0] == b.1), "{a:?} {b:?}");
    }
    assert!(rows.len() < 40, "{} rows are hardly fewer than all", rows.len());
}
