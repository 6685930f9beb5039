//! Every path that a file names, also inside macros, with `super` and `use` groups resolved.

use std::collections::HashSet;

use proc_macro2::{Delimiter, TokenTree};

use super::source::{Source, is_punct, line, word};

/// `crate::domain::Seq` on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// `["crate", "domain", "Seq"]`, or `["sqlx", "Pool"]`.
    pub(crate) segments: Vec<String>,
    /// Where it begins.
    pub(crate) line: usize,
}

/// All paths of at least two segments, and single names behind `use`.
pub(crate) fn paths_of(source: &Source) -> Vec<NamedPath> {
    let mut walk = Walk {
        module: source.module(),
        found: Vec::new(),
        locals: HashSet::new(),
    };
    let tokens: Vec<TokenTree> = source.tokens.clone().into_iter().collect();
    walk.level(&tokens);
    let Walk { found, locals, .. } = walk;
    // `config::Shown` after `use crate::config;` is the module and not the crate of the same name.
    found
        .into_iter()
        .filter(|path| path.segments[0] == "crate" || !locals.contains(&path.segments[0]))
        .collect()
}

struct Walk {
    /// The module whose tokens are read.
    module: Vec<String>,
    found: Vec<NamedPath>,
    /// Names that a `use` or `mod` of this file brings in.
    locals: HashSet<String>,
}

impl Walk {
    fn level(&mut self, tokens: &[TokenTree]) {
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            let starts = index == 0 || !is_punct(tokens.get(index - 1), ':') || !joined(tokens, index);
            match token {
                TokenTree::Ident(ident) if ident == "mod" => {
                    index += self.module_block(tokens, index);
                    continue;
                }
                TokenTree::Ident(ident) if ident == "use" => {
                    index += self.use_item(tokens, index + 1);
                }
                TokenTree::Ident(_) if starts && !is_punct(index.checked_sub(1).and_then(|i| tokens.get(i)), '.') => {
                    index += self.plain(tokens, index);
                    continue;
                }
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.level(&inner);
                }
                _ => {}
            }
            index += 1;
        }
    }

    /// `mod name { … }` is read as the module that it is; gives how many tokens are done.
    fn module_block(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let Some(name) = word(tokens.get(at + 1)) else { return 1 };
        if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
            self.module.push(name);
            let inner: Vec<TokenTree> = body.stream().into_iter().collect();
            self.level(&inner);
            self.module.pop();
            return 3;
        }
        self.locals.insert(name);
        2
    }

    /// `a::b::c` outside `use`.
    fn plain(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let mut segments = vec![word(tokens.get(at)).unwrap_or_default()];
        let mut end = at + 1;
        while is_punct(tokens.get(end), ':') && is_punct(tokens.get(end + 1), ':') {
            let Some(next) = word(tokens.get(end + 2)) else { break };
            segments.push(next);
            end += 3;
        }
        if segments.len() > 1 {
            self.name(segments, line(&tokens[at]));
        }
        end - at
    }

    /// Everything up to the semicolon of a `use`; gives how many tokens that is.
    fn use_item(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let length = tokens[at..]
            .iter()
            .position(|token| is_punct(Some(token), ';'))
            .unwrap_or(tokens.len() - at);
        self.use_tree(&tokens[at..at + length], &[]);
        length
    }

    fn use_tree(&mut self, tokens: &[TokenTree], prefix: &[String]) {
        for part in tokens.split(|token| is_punct(Some(token), ',')) {
            let mut segments = prefix.to_vec();
            let mut alias = None;
            let mut tree = None;
            for (index, token) in part.iter().enumerate() {
                match token {
                    TokenTree::Ident(ident) if ident == "as" => alias = word(part.get(index + 1)),
                    TokenTree::Ident(ident) if alias.is_none() => segments.push(ident.to_string()),
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => tree = Some(group.stream()),
                    _ => {}
                }
            }
            let Some(first) = part.first() else { continue };
            if let Some(tree) = tree {
                let inner: Vec<TokenTree> = tree.into_iter().collect();
                self.use_tree(&inner, &segments);
                continue;
            }
            if segments.last().is_some_and(|last| last == "self") {
                segments.pop();
            }
            let local = alias.or_else(|| segments.last().cloned()).unwrap_or_default();
            // `use time;` names the crate itself; only a name from deeper down hides one.
            if segments.len() > 1 {
                self.locals.insert(local);
            }
            self.name(segments, line(first));
        }
    }

    fn name(&mut self, segments: Vec<String>, line: usize) {
        let supers = segments.iter().take_while(|segment| *segment == "super").count();
        let skip = usize::from(supers == 0 && segments.first().is_some_and(|first| first == "self"));
        let segments = if supers + skip > 0 {
            let keep = self.module.len().saturating_sub(supers);
            let base = std::iter::once("crate".to_owned()).chain(self.module.iter().take(keep).cloned());
            base.chain(segments.into_iter().skip(supers + skip)).collect()
        } else {
            segments
        };
        self.found.push(NamedPath { segments, line });
    }
}

/// Is the token at `index` behind `::`, so that it goes on with a path?
fn joined(tokens: &[TokenTree], index: usize) -> bool {
    if index < 3 || !is_punct(tokens.get(index - 2), ':') {
        return false;
    }
    // A path that begins with `::` names a crate: then what stands before is no part of a path.
    let before = tokens.get(index - 3);
    matches!(before, Some(TokenTree::Ident(_))) || is_punct(before, '>')
}

#[cfg(test)]
fn named(path: &str, text: &str) -> Vec<String> {
    let paths = paths_of(&Source::new(path, text));
    paths.iter().map(|path| path.segments.join("::")).collect()
}

#[test]
fn paths_are_found_in_uses_groups_bodies_and_macros() {
    let text = "use crate::{domain::{Seq, ids::*}, storage as s};\nuse sqlx::Row;\n\
                fn f() { let x = crate::clock::now(); select! { a = tokio::time::sleep(x) => crate::ids::next() } }";
    assert_eq!(
        named("src/service/x.rs", text),
        [
            "crate::domain::Seq",
            "crate::domain::ids",
            "crate::storage",
            "sqlx::Row",
            "crate::clock::now",
            "tokio::time::sleep",
            "crate::ids::next"
        ]
    );
}

#[test]
fn super_is_resolved_also_inside_modules() {
    let text = "use super::super::storage::Store;\nmod inner { fn f() { super::super::chain::x(); } use super::*; }";
    assert_eq!(
        named("src/domain/decide.rs", text),
        [
            "crate::storage::Store",
            "crate::domain::chain::x",
            "crate::domain::decide"
        ]
    );
}

#[test]
fn a_local_module_is_not_the_crate_of_its_name() {
    let text = "use crate::config;\nfn f() { config::load(); time::now(); <T as Into<U>>::into(x); ::sqlx::query(); }";
    assert_eq!(named("src/app.rs", text), ["crate::config", "time::now", "sqlx::query"]);
}
