//! Sums of events by group, beside those of all.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use crate::stats::aggregate::Group;

/// How many events there are, and how much they are in all: time, or calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// How much.
    pub amount: u64,
}

/// By group and key. Empty in a report without groups.
#[derive(Debug)]
pub struct GroupSums<K>(HashMap<Group, HashMap<K, Sum>>);

impl<K> Default for GroupSums<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// The sum of a key in a group.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupRow<K> {
    /// The group's label.
    pub label: String,
    /// The key.
    pub of: K,
    /// Its sum.
    pub sum: Sum,
}

impl<K: Clone + Eq + Ord + Hash> GroupSums<K> {
    /// Adds to a key's sum.
    pub fn add(&mut self, group: Group, key: &K, count: u64, amount: u64) {
        if group == Group::All {
            return;
        }
        let of_group = self.0.entry(group).or_default();
        if !of_group.contains_key(key) {
            of_group.insert(key.clone(), Sum::default());
        }
        let Some(sum) = of_group.get_mut(key) else { return };
        sum.count = sum.count.saturating_add(count);
        sum.amount = sum.amount.saturating_add(amount);
    }

    /// Adds all sums of a run, by ids that have these names.
    pub fn add_named<I>(&mut self, sums: GroupSums<I>, name: impl Fn(I) -> K) {
        for (group, sums) in sums.0 {
            for (id, Sum { count, amount }) in sums {
                self.add(group, &name(id), count, amount);
            }
        }
    }

    /// Whether there are no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sums in the order of the groups' labels, in each group those with the greatest amount first.
    #[must_use]
    pub fn rows(self, label: impl Fn(Group) -> Option<String>) -> Vec<GroupRow<K>> {
        let of_group = |(group, sums): (Group, HashMap<K, Sum>)| {
            let label = label(group).unwrap_or_default();
            sums.into_iter().map(move |(of, sum)| GroupRow { label: label.clone(), of, sum })
        };
        let mut rows: Vec<GroupRow<K>> = self.0.into_iter().flat_map(of_group).collect();
        rows.sort_by(|one, other| {
            let key = |row: &GroupRow<K>| (Reverse(row.sum.amount), Reverse(row.sum.count));
            one.label
                .cmp(&other.label)
                .then_with(|| key(one).cmp(&key(other)))
                .then_with(|| one.of.cmp(&other.of))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_its_sums() {
        let mut sums = GroupSums::default();
        for (group, key, count, amount) in [
            (Group::Minute(2), "a", 1, 10),
            (Group::Minute(1), "a", 1, 10),
            (Group::Minute(1), "b", 2, 30),
            (Group::Minute(1), "b", 1, u64::MAX),
            (Group::All, "c", 1, 1),
        ] {
            sums.add(group, &key, count, amount);
        }
        let label = |group| match group {
            Group::Minute(minute) => Some(minute.to_string()),
            _ => None,
        };
        let rows = sums.rows(label);
        let rows: Vec<_> =
            rows.iter().map(|r| (&*r.label, r.of, r.sum.count, r.sum.amount)).collect();
        assert_eq!(rows, [("1", "b", 3, u64::MAX), ("1", "a", 1, 10), ("2", "a", 1, 10)]);
    }
}
