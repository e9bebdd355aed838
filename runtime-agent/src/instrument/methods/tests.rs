use log_format::ids::MethodId;

use super::*;

const LOADER: LoaderId = LoaderId::new(2);

fn method(class: &Arc<Class>, name: &str) -> Method {
    Method { class: class.clone(), name: name.into(), descriptor: "()V".into(), line: 1 }
}

#[test]
fn a_method_keeps_its_id_within_its_loader() {
    let registry = Methods::default();
    let class = Arc::new(Class { loader: "app".into(), name: "A".into(), source: String::new() });
    let load = |loader, names: &[&str]| {
        registry.with_class(loader, "A", |known| {
            names.iter().map(|n| known.id(method(&class, n)).unwrap().0.get()).collect::<Vec<_>>()
        })
    };
    assert_eq!(load(LOADER, &["<init>", "a"]), [1, 2]);
    assert_eq!(load(LOADER, &["a", "b", "<init>"]), [2, 3, 1]);
    assert_eq!(load(LoaderId::new(3), &["a"]), [4]);
    assert!(load(LoaderId::new(4), &[]).is_empty());
    assert_eq!(registry.find(LoaderId::new(3), "A", "a", "()V"), Some(MethodId::new(4)));
    assert_eq!(
        [
            registry.find(LoaderId::new(4), "A", "a", "()V"),
            registry.find(LoaderId::new(3), "B", "a", "()V")
        ],
        [None; 2]
    );
    assert_eq!(registry.get(MethodId::new(3)), Some(method(&class, "b")));
    assert_eq!(registry.get(MethodId::NONE), None);
    assert_eq!(registry.get(MethodId::new(5)), None);
}

#[test]
fn ids_of_a_loader_that_is_no_more_are_used_again() {
    let registry = Methods::default();
    let load = |loader, label: &str, lines: &[(&str, u32)]| {
        let class = Class { loader: label.into(), name: "a.B".into(), source: "B.java".into() };
        let class = Arc::new(class);
        registry.with_class(LoaderId::new(loader), "a/B", |known| {
            let id = |(name, line): &(&str, u32)| {
                let method = Method { line: *line, ..method(&class, name) };
                known.id(method).unwrap().0.get()
            };
            lines.iter().map(id).collect::<Vec<_>>()
        })
    };
    let both = [("a", 1), ("b", 2)];
    assert_eq!(load(3, "x.Loader#3", &both), [1, 2]);
    assert_eq!(load(4, "x.Loader#4", &both), [3, 4]);
    registry.forget_loaders(&HashSet::from([3, 9].map(LoaderId::new)));
    let found = [3, 4].map(LoaderId::new).map(|loader| registry.find(loader, "a/B", "a", "()V"));
    assert_eq!(found, [None, Some(MethodId::new(3))]);
    // Another version of the class, and a loader of another class, have ids of their own.
    assert_eq!(load(5, "x.Loader#5", &[("b", 2), ("a", 7)]), [2, 5]);
    assert_eq!(load(6, "y.Loader#6", &both), [6, 7]);
    assert_eq!(load(7, "x.Loader#7", &both), [1, 8]);
    // One more loader each time, and no more ids.
    for loader in 10..1_000 {
        registry.forget_loaders(&HashSet::from([LoaderId::new(loader - 1)]));
        let ids = load(loader, "x.Loader#1", &both);
        assert!(ids.iter().all(|id| *id <= 10), "{ids:?}");
    }
}

#[test]
fn beyond_the_most_there_are_no_ids_but_for_methods_that_are_known() {
    let registry = Methods { most: 2, ..Methods::default() };
    let class = Arc::new(Class { loader: "app".into(), name: "A".into(), source: String::new() });
    let id = |name| {
        let id = registry.with_class(LOADER, "A", |known| known.id(method(&class, name)));
        id.map(|(id, is_new)| (id.get(), is_new))
    };
    let ids = ["a", "b", "c", "a", "c"].map(id);
    assert_eq!(ids, [Some((1, true)), Some((2, true)), None, Some((1, false)), None]);
}

#[test]
fn patterns_of_traces_are_forgotten() {
    let _turn = probe::tests::turn();
    let registry = Methods::default();
    let trace = |text: &str| registry.change_trace(Pattern::parse(text).unwrap(), 100, || {});
    for n in 0..255 {
        assert_eq!(trace(&format!("z.Y{n}")), Ok(0));
    }
    let full = trace("z.Z").unwrap_err().to_string();
    assert_eq!(full, "trace: more than 255 patterns; untrace forgets all");
    assert_eq!(registry.traces().len(), 255);
    registry.forget_traces();
    assert_eq!((trace("z.Z"), registry.traces().len()), (Ok(0), 1));
    registry.forget_traces();
}

#[test]
fn the_last_threshold_that_names_a_method_is_its_own() {
    let registry = Methods::default();
    let class = Arc::new(Class { loader: "app".into(), name: "a.B".into(), source: String::new() });
    let add = |name| {
        let id = registry.with_class(LOADER, name, |known| known.id(method(&class, name)));
        id.expect("an id").0
    };
    let pattern = |text: &str| Pattern::parse(text).unwrap();
    let change = |text: &str, ns| registry.change_threshold(pattern(text), ns, || {});
    let follow = || (0..9).for_each(|_| registry.follow_patterns());
    let ns_of = probe::threshold_ns_of;
    // Other tests have set that of all methods, or not; numbers from 1 on are used here only.
    let (own, _) = OwnValues::new(Kind::Threshold).with(pattern("a.B.e*"), 4, true).unwrap();
    registry.set_own(own);
    let early = add("early");
    assert_eq!(ns_of(early), 4, "an option holds from the first call on");
    assert_eq!(change("a.B.e*", 5), Ok(1));
    assert_eq!(change("a.B", 7), Ok(1));
    let (later, third) = (add("even"), add("odd"));
    follow();
    assert_eq!([early, later, third].map(ns_of), [7, 7, 7]);
    assert_eq!(change("a.B.e*", 6), Ok(2));
    assert_eq!([early, later, third].map(ns_of), [6, 6, 7]);
    let last = add("eleven");
    follow();
    assert_eq!(ns_of(last), 6);
    let thresholds = registry.thresholds();
    assert_eq!(thresholds.iter().map(|own| own.value).collect::<Vec<_>>(), [7, 6]);
    for n in 2..255 {
        assert_eq!(change(&format!("x.Y{n}"), u64::MAX), Ok(0));
    }
    assert_eq!(change("one.more", 1).unwrap_err().to_string(), "threshold: more than 255 patterns");
    assert_eq!(change("x.Y7", u64::MAX), Ok(0));
}

#[test]
fn each_method_is_visited_once_and_a_deadline_ends_it() {
    let registry = Methods::default();
    let class = Arc::new(Class { loader: "app".into(), name: "A".into(), source: String::new() });
    let count = 2 * COPIED + 7;
    registry.with_class(LOADER, "A", |known| {
        for n in 0..count {
            known.add_new(method(&class, &n.to_string()));
        }
    });
    let (mut seen, mut rounds) = (Vec::new(), 0);
    let last = registry.for_each(
        || rounds += 1,
        |id, method| {
            assert_eq!(method.name, (id.get() - 1).to_string());
            seen.push(id.get());
        },
    );
    assert_eq!(last, count);
    assert!(rounds > 0 && seen.iter().copied().eq(1..=u32::try_from(count).unwrap()));
    // At least one each time, so that repeated calls come to the end.
    let now = Instant::now();
    assert_eq!(registry.for_each_from(5, now, |id, _| assert_eq!(id, MethodId::new(5))), 5);
    assert_eq!(registry.for_each_from(count + 1, now, |_, _| panic!("none is left")), count);
}
