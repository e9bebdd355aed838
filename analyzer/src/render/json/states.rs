//! What threads did, by state.

use serde::Serialize;

use super::rows::Name;
use crate::report::states::StateTime;

/// A state in JSON.
#[derive(Serialize)]
pub(super) struct StateRow<'r> {
    state: &'r str,
    ns: u64,
    methods: Vec<MethodRow<'r>>,
    methods_not_shown: usize,
}

#[derive(Serialize)]
struct MethodRow<'r> {
    #[serde(flatten)]
    method: Name<'r>,
    ns: u64,
}

impl<'r> StateRow<'r> {
    pub(super) fn new(of: &'r StateTime) -> Self {
        let methods = of.methods.iter();
        let methods = methods.map(|(method, ns)| MethodRow { method: Name::new(method), ns: *ns });
        Self {
            state: &of.state,
            ns: of.ns,
            methods: methods.collect(),
            methods_not_shown: of.not_shown,
        }
    }
}
