//! No modules of a crate import each other in a circle, except those that docs/architecture.md names. Nor do its rooms,
//! which are modules with all that is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, Meta, UseTree};
use test_classes::project;

/// Each test file is a module of its crate's one test program; another would never run.
#[test]
fn every_test_file_runs() {
    for tests in ["analyzer/tests", "test-classes/tests"].map(|folder| project().join(folder)) {
        let main = fs::read_to_string(tests.join("main.rs")).expect("the list of modules");
        let files = fs::read_dir(&tests).expect("tests").map(|file| file.expect("a file").path());
        let files = files.filter(|file| file.extension().is_some_and(|ext| ext == "rs"));
        let names = files.map(|file| file.file_stem().expect("a name").display().to_string());
        let missing: Vec<String> = names
            .filter(|name| name != "main" && !main.contains(&format!("mod {name};")))
            .collect();
        assert_eq!(missing, [""; 0], "{}", tests.display());
    }
}

/// The roots of all crates, and of their programs that have modules.
const ROOTS: [&str; 9] = [
    "analyzer/src/lib.rs",
    "analyzer/src/main.rs",
    "log-format/src/lib.rs",
    "rewriter/src/lib.rs",
    "rewriter/src/bin/rewrite.rs",
    "runtime-agent/src/lib.rs",
    "runtime-agent/handler/src/lib.rs",
    "skywalking/src/lib.rs",
    "test-classes/src/lib.rs",
];

/// The start of the list of circles in docs/architecture.md.
const LIST: &str = "Only these modules do";

type Name = Vec<String>;
type Imports = BTreeMap<Name, BTreeSet<Name>>;

/// The modules of a crate, each with the paths that it uses, from the crate's root.
#[derive(Default)]
struct Modules(BTreeMap<Name, BTreeSet<Name>>);

impl Modules {
    fn of(root: &Path) -> Self {
        let mut modules = Self::default();
        let folder = root.parent().expect("a folder");
        modules.read(root, folder, Vec::new());
        modules
    }

    /// Reads a file and those of its modules, which are in `folder`.
    fn read(&mut self, file: &Path, folder: &Path, name: Name) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.items(&parsed.items, folder, name);
    }

    fn items(&mut self, items: &[Item], folder: &Path, name: Name) {
        let children = items.iter().filter_map(|item| match item {
            Item::Mod(module) if !is_of_tests(&module.attrs) => Some(module.ident.to_string()),
            _ => None,
        });
        let mut paths =
            Paths { at: name.clone(), children: children.collect(), found: BTreeSet::new() };
        items.iter().for_each(|item| paths.visit_item(item));
        self.0.insert(name.clone(), paths.found);
        for item in items {
            let Item::Mod(module) = item else { continue };
            if is_of_tests(&module.attrs) {
                continue;
            }
            let of = module.ident.to_string();
            let inside = folder.join(&of);
            let mut name = name.clone();
            name.push(of);
            match &module.content {
                Some((_, items)) => self.items(items, &inside, name),
                None => {
                    let files = [inside.with_extension("rs"), inside.join("mod.rs")];
                    let file: &PathBuf = files.iter().find(|file| file.exists()).expect("a file");
                    self.read(file, &inside, name);
                }
            }
        }
    }

    /// Each module with those that it imports.
    fn imports(&self) -> Imports {
        let module_of = |path: &Name| {
            let parts = (1..=path.len()).rev().map(|length| &path[..length]);
            parts.map(<[String]>::to_vec).find(|name| self.0.contains_key(name))
        };
        let of = |(name, paths): (&Name, &BTreeSet<Name>)| {
            (name.clone(), paths.iter().filter_map(module_of).collect())
        };
        self.0.iter().map(of).collect()
    }

    /// The modules that import each other.
    fn circles(&self) -> BTreeSet<Vec<String>> {
        circles(&self.imports())
    }

    /// The rooms that import each other, below the crate's root and below each module.
    fn circles_of_rooms(&self) -> BTreeSet<Vec<String>> {
        let imports = self.imports();
        let parents =
            self.0.keys().filter(|name| !name.is_empty()).map(|name| &name[..name.len() - 1]);
        let parents: BTreeSet<&[String]> = parents.collect();
        let within = |parent: &[String]| {
            // A module's own items are no room of it.
            let room_of = |name: &Name| {
                (name.len() > parent.len() && name.starts_with(parent))
                    .then(|| name[..=parent.len()].to_vec())
            };
            let mut rooms = Imports::new();
            for (name, imported) in &imports {
                let Some(room) = room_of(name) else { continue };
                let others = imported.iter().filter_map(room_of).filter(|other| *other != room);
                rooms.entry(room.clone()).or_default().extend(others);
            }
            circles(&rooms)
        };
        parents.into_iter().flat_map(within).collect()
    }
}

/// The names that import each other, directly or not, except the crate's root.
fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let reached = |from: &Name| {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&Name> = imports[from].iter().collect();
        while let Some(next) = left.pop() {
            if reached.insert(next) {
                left.extend(&imports[next]);
            }
        }
        reached
    };
    let all: BTreeMap<&Name, BTreeSet<&Name>> =
        imports.keys().filter(|name| !name.is_empty()).map(|name| (name, reached(name))).collect();
    let circle_of = |name: &&Name| {
        let others = all[name].iter().filter(|other| {
            **other != *name && all.get(**other).is_some_and(|back| back.contains(*name))
        });
        let mut circle: Vec<String> = others.map(|other| other.join("::")).collect();
        circle.push(name.join("::"));
        circle.sort_unstable();
        circle
    };
    all.keys().map(circle_of).filter(|circle| circle.len() > 1).collect()
}

/// Whether an item is compiled only for tests.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        _ => false,
    })
}

/// Collects the paths that a module uses.
struct Paths {
    at: Name,
    children: BTreeSet<String>,
    found: BTreeSet<Name>,
}

impl Paths {
    fn add(&mut self, path: &[String]) {
        let mut rest = path;
        let mut from = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.at.clone(),
            Some(first) if self.children.contains(first) => self.at.clone(),
            _ => return,
        };
        while let Some(("crate" | "self" | "super", others)) =
            rest.split_first().map(|(first, others)| (first.as_str(), others))
        {
            if rest[0] == "super" {
                from.pop();
            }
            rest = others;
        }
        from.extend_from_slice(rest);
        // A module's own items are not imports.
        if from != self.at {
            self.found.insert(from);
        }
    }

    fn add_tree(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|t| self.add_tree(t, before)),
            UseTree::Glob(_) => self.add(&before.clone()),
            UseTree::Name(_) | UseTree::Rename(_) => {
                let name = match tree {
                    UseTree::Name(name) => name.ident.to_string(),
                    UseTree::Rename(name) => name.ident.to_string(),
                    _ => return,
                };
                before.push(name);
                self.add(&before.clone());
                before.pop();
            }
        }
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_item_mod(&mut self, _: &'a ItemMod) {
        // It is read separately.
    }

    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_of_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.add_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if names.len() > 1 {
            self.add(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a Macro) {
        let names: Vec<String> = called.path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.add(&names);
        // A macro's arguments are tokens.
        let text = called.tokens.to_string().replace(" :: ", "::");
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
            let names: Vec<String> = word.split("::").map(str::to_owned).collect();
            if names.len() > 1 {
                self.add(&names);
            }
        }
    }
}

/// The circles that docs/architecture.md names: crate and modules.
fn documented() -> BTreeSet<(String, Vec<String>)> {
    let text = fs::read_to_string(project().join("docs/architecture.md")).expect("the document");
    let list = text.split_once(LIST).expect("the list of circles").1;
    let lines = list.lines().skip(1).skip_while(|line| line.is_empty());
    let lines = lines.take_while(|line| line.starts_with("- "));
    let circle = |line: &str| {
        let mut names: Vec<String> = line.split(':').next().map_or_else(Vec::new, |_| {
            line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        });
        let of = names.remove(0);
        names.sort_unstable();
        (of, names)
    };
    lines.map(circle).collect()
}

#[test]
fn no_modules_import_each_other_in_a_circle_but_those_that_are_documented() {
    let mut circles = BTreeSet::new();
    for root in ROOTS {
        let modules = Modules::of(&project().join(root));
        let of = root.split('/').next().expect("a crate");
        circles.extend(modules.circles().into_iter().map(|circle| (of.to_owned(), circle)));
        let of_rooms = modules.circles_of_rooms();
        circles.extend(of_rooms.into_iter().map(|circle| (of.to_owned(), circle)));
        // It finds imports at all.
        let imports: usize = modules.0.values().map(BTreeSet::len).sum();
        assert!(imports >= modules.0.len() / 2, "{root}: {imports}");
    }
    assert_eq!(circles, documented());
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("lib.rs", "mod one; mod two; mod three; use one::A;");
    write("one.rs", "pub struct A; fn f() { crate::two::g() }");
    write("two.rs", "pub fn g() { println!(\"{}\", super::three::h()) }");
    write("three.rs", "use crate::{one::A}; pub fn h() -> u8 { 1 } #[cfg(test)] mod tests { }");
    let circles = Modules::of(&folder.path().join("lib.rs")).circles();
    let expected = ["one", "three", "two"].map(str::to_owned).to_vec();
    assert_eq!(circles, BTreeSet::from([expected]));
    write("three.rs", "pub fn h() -> u8 { 1 } #[cfg(test)] use crate::one::A;");
    assert_eq!(Modules::of(&folder.path().join("lib.rs")).circles(), BTreeSet::new());
}

#[test]
fn a_circle_of_rooms_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let rooms = || Modules::of(&folder.path().join("lib.rs")).circles_of_rooms();
    write("lib.rs", "mod one { pub mod a; mod b; } mod two { pub mod c; mod d; }");
    for room in ["one", "two"] {
        fs::create_dir(folder.path().join(room)).expect("a folder");
    }
    write("one/a.rs", "pub fn f() {}");
    write("one/b.rs", "use crate::two::c::g;");
    write("two/c.rs", "pub fn g() {}");
    write("two/d.rs", "use super::super::one::a::f;");
    assert_eq!(Modules::of(&folder.path().join("lib.rs")).circles(), BTreeSet::new());
    assert_eq!(rooms(), BTreeSet::from([["one", "two"].map(str::to_owned).to_vec()]));
    write("two/d.rs", "use super::c::g;");
    assert_eq!(rooms(), BTreeSet::new());
    // In a room too.
    write(
        "two/d.rs",
        "mod three { pub mod e { } mod f { use super::super::four::g::h; } } mod four { pub mod g { \
                       pub fn h() { } } mod i { use super::super::three::e; } }",
    );
    let inner = ["two::d::four", "two::d::three"].map(str::to_owned).to_vec();
    assert_eq!(rooms(), BTreeSet::from([inner]));
}
