//! Names of groups: hosts, classes, packages, and how each group is labelled.

use std::collections::HashMap;

use crate::options::By;
use crate::options::zone::{Zone, hour_text};
use crate::stats::aggregate::Group;
use crate::stats::method::Method;

/// Hosts, classes and packages that are groups.
#[derive(Debug, Default)]
pub(crate) struct GroupNames {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl GroupNames {
    pub(crate) fn group(&mut self, name: &str) -> Group {
        Group::Named(*self.places.entry(name.to_owned()).or_insert_with(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }))
    }

    /// The group of a method's class or package; `None` if these are no groups.
    pub(crate) fn of_method(&mut self, by: By, method: &Method) -> Option<Group> {
        let class = method.parts().0;
        match by {
            By::Class => Some(self.group(class)),
            By::Package => {
                Some(self.group(class.rsplit_once('.').map_or("", |(package, _)| package)))
            }
            By::Nothing | By::Hour | By::Minute | By::Thread | By::Run | By::Host => None,
        }
    }

    pub(crate) fn name(&self, place: usize) -> Option<&String> {
        self.names.get(place)
    }
}

/// The label of a group; `None` without groups.
pub(crate) fn label(
    group: Group,
    runs: &[String],
    threads: &HashMap<Group, String>,
    names: &GroupNames,
    zone: &Zone,
) -> Option<String> {
    let run_label = |place: usize| runs.get(place).cloned().unwrap_or_default();
    match group {
        Group::All => None,
        Group::Hour(hour) => Some(hour_text(hour)),
        Group::Minute(minute) => Some(zone.text_minute(minute.saturating_mul(60_000_000_000))),
        Group::Named(place) => Some(names.name(place).cloned().unwrap_or_default()),
        Group::Run(run) => Some(run_label(run)),
        Group::Thread(run, id) => {
            let name = threads.get(&group).cloned().unwrap_or_else(|| format!("thread #{id}"));
            // Thread ids are unique only within a run.
            let is_unique = runs.len() < 2;
            Some(if is_unique { name } else { format!("{name} in {}", run_label(run)) })
        }
    }
}
