//! The documentation stays short: people read it in a hurry.

use std::fs;
use std::path::PathBuf;

use test_classes::project;

const MOST_WORDS: usize = 20_000;
const MOST_LINES: usize = 6;

/// The pages, and the README.
fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join("docs")).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    assert!(pages.len() > 8, "{pages:?}");
    pages.push(project().join("README.md"));
    pages
}

/// The paragraphs of a page, without code and tables; each item of a list is one.
fn paragraphs(page: &str) -> Vec<Vec<&str>> {
    let mut paragraphs = vec![Vec::new()];
    let mut is_code = false;
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let is_other =
            is_code || is_fence || line.starts_with(['|', '#']) || line.starts_with("    ");
        let text = line.trim_start();
        if is_other || text.is_empty() || is_item(text) {
            paragraphs.push(Vec::new());
        }
        if !is_other && !text.is_empty() {
            paragraphs.last_mut().expect("one").push(line);
        }
    }
    paragraphs
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || number.len() < line.len() && number.starts_with(". ")
}

#[test]
fn docs_have_few_words() {
    let texts = pages().into_iter().filter(|page| !page.ends_with("README.md"));
    let words = |page: PathBuf| fs::read_to_string(page).expect("text").split_whitespace().count();
    let words: usize = texts.map(words).sum();
    println!("{words} words");
    assert!(words < MOST_WORDS, "{words} words");
}

#[test]
fn no_paragraph_is_long() {
    for page in pages() {
        let text = fs::read_to_string(&page).expect("text");
        for paragraph in paragraphs(&text) {
            assert!(paragraph.len() <= MOST_LINES, "{}: {paragraph:#?}", page.display());
        }
    }
    let long = "one\n".repeat(7);
    assert_eq!(paragraphs(&long).iter().map(Vec::len).max(), Some(7));
}

#[test]
fn each_change_is_one_line() {
    let text = fs::read_to_string(project().join("CHANGELOG.md")).expect("text");
    let (_, changes) = text.split_once("\n### ").expect("changes");
    for line in changes.lines().skip(1).filter(|line| !line.is_empty()) {
        assert!(line.starts_with("- ") || line.starts_with("##"), "{line}");
        assert!(line.chars().count() <= 120, "{line}");
    }
}
