//! Puts all mutants of a file into one program: each mutated place checks which mutant is switched on. So the code is built only once, and then a
//! mutant needs only the time of the tests that execute its place.

use super::list::{Genre, Mutant};
use std::collections::HashMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The code that is added to each crate. Environment variables name the active mutant, and the file to which executed places are written.
pub(super) const ASKED: &str = r#"
#[doc(hidden)]
#[allow(warnings, clippy::all)]
pub mod mutant_switch {
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::{LazyLock, Mutex};

    static ON: LazyLock<u32> = LazyLock::new(|| {
        std::env::var("MUTANT_ON").ok().and_then(|id| id.parse().ok()).unwrap_or(0)
    });
    static REACHED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MUTANTS_REACHED").ok());
    static SLOTS: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];
    static SEEN: LazyLock<Mutex<std::collections::HashSet<u32>>> = LazyLock::new(Mutex::default);

    pub fn on(id: u32) -> bool {
        if let Some(path) = &*REACHED {
            let slot = &SLOTS[id as usize & 0xffff];
            if slot.load(Relaxed) != id && slot.swap(id, Relaxed) != id && SEEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(id) {
                if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
                    let _ = file.write_all(format!("{id}\n").as_bytes());
                }
            }
        }
        *ON == id
    }
}
"#;

/// The text of a source file with its mutants.
pub(super) struct Switched {
    pub(super) text: String,
    /// Byte ranges of the text, each with its mutants. The mutants of a range cause the errors of the compiler in this range.
    pub(super) places: Vec<(Range<usize>, Vec<u32>)>,
    /// Mutants for which no switch can be written.
    pub(super) alone: Vec<u32>,
    /// Mutants whose replacement is not an expression.
    pub(super) unviable: Vec<u32>,
}

/// Puts the mutants into the text of a file.
pub(super) fn switch(text: &str, mutants: &[&Mutant]) -> Result<Switched, String> {
    let file = syn::parse_file(text).map_err(|why| why.to_string())?;
    let mut by_place: HashMap<usize, Vec<&Mutant>> = HashMap::new();
    for mutant in mutants {
        by_place.entry(mutant.begin).or_default().push(mutant);
    }
    let mut finder =
        Finder { text, by_place, sites: Vec::new(), unviable: Vec::new(), constant: 0, catches_all: false };
    finder.visit_file(&file);
    let Finder { mut sites, unviable, .. } = finder;
    // Outer places come first; an insertion comes before a replacement that begins at the same offset.
    sites.sort_by_key(|site| (site.range.start, !site.range.is_empty(), std::cmp::Reverse(site.range.end)));
    let placed: Vec<u32> = sites.iter().flat_map(|site| site.ids()).chain(unviable.iter().copied()).collect();
    let alone = mutants.iter().map(|mutant| mutant.id).filter(|id| !placed.contains(id)).collect();
    let mut switched = Switched { text: String::new(), places: Vec::new(), alone, unviable };
    switched.render(text, 0..text.len(), &sites);
    Ok(switched)
}

/// A place in the source, and its replacement for each mutant.
struct Site {
    range: Range<usize>,
    form: Form,
    /// The id of each mutant, and the text that replaces the place when this mutant is active.
    instead: Vec<(u32, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Inserted at the start of a function: return early.
    Return,
    /// Inserted after a pattern: the arm does not match.
    NoMatch,
    /// Replaces an expression.
    Expression,
}

impl Site {
    fn ids(&self) -> impl Iterator<Item = u32> {
        self.instead.iter().map(|(id, _)| *id)
    }
}

impl Switched {
    fn render(&mut self, source: &str, range: Range<usize>, sites: &[Site]) {
        let (mut at, mut rest) = (range.start, sites);
        while let Some((site, after)) = rest.split_first() {
            let inner = after.iter().take_while(|other| other.range.start < site.range.end).count();
            let (inner, after) = after.split_at(inner);
            self.text.push_str(source.get(at..site.range.start).unwrap_or_default());
            let begin = self.text.len();
            self.render_site(source, site, inner);
            self.places.push((begin..self.text.len(), site.ids().collect()));
            (at, rest) = (site.range.end, after);
        }
        self.text.push_str(source.get(at..range.end).unwrap_or_default());
    }

    fn render_site(&mut self, source: &str, site: &Site, inner: &[Site]) {
        if site.form == Form::Expression {
            self.text.push('(');
        }
        for (id, instead) in &site.instead {
            let begin = self.text.len();
            let asked = format!("crate::mutant_switch::on({id})");
            self.text.push_str(&match site.form {
                Form::Return => format!("if {asked} {{ return {instead}; }} "),
                Form::NoMatch => format!(" if !{asked}"),
                Form::Expression => format!("if {asked} {{ {instead} }} else "),
            });
            self.places.push((begin..self.text.len(), vec![*id]));
        }
        if site.form == Form::Expression {
            self.text.push_str("{ ");
            self.render(source, site.range.clone(), inner);
            self.text.push_str(" })");
        }
    }
}

struct Finder<'a> {
    text: &'a str,
    by_place: HashMap<usize, Vec<&'a Mutant>>,
    sites: Vec<Site>,
    unviable: Vec<u32>,
    /// The number of enclosing constant items and expressions; inside them no switch is possible.
    constant: u32,
    /// Whether the enclosing match has a catch-all arm. If it has one, any other arm may be deleted.
    catches_all: bool,
}

impl Finder<'_> {
    /// Adds a [`Site`] for the mutants of this [`Genre`] that begin at `begin`; `instead` gives the replacement of each.
    fn place(
        &mut self,
        begin: usize,
        genre: Genre,
        form: Form,
        range: Range<usize>,
        instead: impl Fn(&Mutant) -> Option<String>,
    ) {
        if self.constant > 0 {
            return;
        }
        let mut site = Site { range, form, instead: Vec::new() };
        // A function that returns `impl Trait` cannot return a second type early.
        let is_here = |mutant: &&&Mutant| {
            mutant.genre == genre && !(form == Form::Return && mutant.return_type.contains("impl "))
        };
        for mutant in self.by_place.get(&begin).into_iter().flatten().filter(is_here) {
            let written = instead(mutant);
            let valid =
                written.filter(|text| form == Form::NoMatch || syn::parse_str::<syn::Expr>(text).is_ok());
            match valid {
                Some(text) => site.instead.push((mutant.id, text)),
                None => self.unviable.push(mutant.id),
            }
        }
        if !site.instead.is_empty() {
            self.sites.push(site);
        }
    }

    fn function(&mut self, block: &syn::Block) {
        if let Some(first) = block.stmts.first() {
            let begin = first.span().byte_range().start;
            self.place(begin, Genre::FnValue, Form::Return, begin..begin, |mutant| {
                Some(mutant.replacement.clone())
            });
        }
    }

    fn constant(&mut self, is_constant: bool, within: impl FnOnce(&mut Self)) {
        self.constant += u32::from(is_constant);
        within(self);
        self.constant -= u32::from(is_constant);
    }
}

/// Whether a condition contains a `let`, so that it cannot be put in parentheses.
fn binds(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_) | syn::BinOp::Or(_)) => {
            binds(&binary.left) || binds(&binary.right)
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.constant(item.sig.constness.is_some(), |finder| {
            finder.function(&item.block);
            visit::visit_item_fn(finder, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.constant(item.sig.constness.is_some(), |finder| {
            finder.function(&item.block);
            visit::visit_impl_item_fn(finder, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.constant(item.sig.constness.is_some(), |finder| {
            item.default.iter().for_each(|block| finder.function(block));
            visit::visit_trait_item_fn(finder, item);
        });
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(true, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(true, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.constant(true, |finder| visit::visit_trait_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant(true, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.constant(true, |finder| visit::visit_expr_const(finder, block));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.constant(true, |finder| visit::visit_variant(finder, variant));
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.constant(true, |finder| visit::visit_type_array(finder, array));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.constant(true, |finder| finder.visit_expr(&repeat.len));
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let (whole, operator) = (binary.span().byte_range(), binary.op.span().byte_range());
        let holds_let = binds(&binary.left) || binds(&binary.right);
        let text = self.text;
        self.place(operator.start, Genre::BinaryOperator, Form::Expression, whole.clone(), |mutant| {
            let before = text.get(whole.start..operator.start)?;
            let after = text.get(operator.end..whole.end)?;
            (!holds_let).then(|| format!("{before}{}{after}", mutant.replacement))
        });
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let (whole, operator) = (unary.span().byte_range(), unary.op.span().byte_range());
        let text = self.text;
        self.place(operator.start, Genre::UnaryOperator, Form::Expression, whole.clone(), |_| {
            Some(text.get(operator.end..whole.end)?.to_owned())
        });
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, whole: &'ast syn::ExprStruct) {
        let (range, text) = (whole.span().byte_range(), self.text);
        for pair in whole.fields.pairs() {
            let field = pair.span().byte_range();
            self.place(field.start, Genre::StructField, Form::Expression, range.clone(), |_| {
                Some(format!("{}{}", text.get(range.start..field.start)?, text.get(field.end..range.end)?))
            });
        }
        visit::visit_expr_struct(self, whole);
    }

    fn visit_expr_match(&mut self, whole: &'ast syn::ExprMatch) {
        self.visit_expr(&whole.expr);
        let catches_all = |arm: &syn::Arm| arm.guard.is_none() && matches!(arm.pat, syn::Pat::Wild(_));
        for arm in &whole.arms {
            self.catches_all = whole.arms.iter().any(catches_all);
            self.visit_arm(arm);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let begin = arm.span().byte_range().start;
        if let Some((_, guard)) = &arm.guard {
            let range = guard.span().byte_range();
            let holds_let = binds(guard);
            self.place(range.start, Genre::MatchArmGuard, Form::Expression, range, |mutant| {
                (!holds_let).then(|| mutant.replacement.clone())
            });
        } else if self.catches_all {
            let end = arm.pat.span().byte_range().end;
            self.place(begin, Genre::MatchArm, Form::NoMatch, end..end, |_| Some(String::new()));
        }
        visit::visit_arm(self, arm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(source: &str, id: u32, genre: Genre, replaced: &str, replacement: &str) -> Mutant {
        let begin = source.find(replaced).unwrap();
        Mutant {
            id,
            file: "x.rs".into(),
            package: "x".into(),
            name: String::new(),
            label: String::new(),
            full_name: String::new(),
            at: String::new(),
            genre,
            begin,
            end: begin + replaced.len(),
            replacement: replacement.into(),
            return_type: String::new(),
        }
    }

    #[test]
    fn each_kind_is_switched() {
        use Genre::{BinaryOperator, FnValue, MatchArm, MatchArmGuard, StructField, UnaryOperator};
        for (source, genre, replaced, replacement, expected) in [
            (
                "fn f() -> u8 { g() }",
                FnValue,
                "g()",
                "1",
                "fn f() -> u8 { if crate::mutant_switch::on(7) { return 1; } g() }",
            ),
            (
                "fn f() { if a + b == c {} }",
                BinaryOperator,
                "==",
                "!=",
                "fn f() { if (if crate::mutant_switch::on(7) { a + b != c } else { a + b == c }) {} }",
            ),
            (
                "fn f() { !x }",
                UnaryOperator,
                "!",
                "",
                "fn f() { (if crate::mutant_switch::on(7) { x } else { !x }) }",
            ),
            (
                "fn f() { match x { A => b, _ => c } }",
                MatchArm,
                "A => b,",
                "",
                "fn f() { match x { A if !crate::mutant_switch::on(7) => b, _ => c } }",
            ),
            (
                "fn f() { match x { A if g => b, _ => c } }",
                MatchArmGuard,
                "g",
                "true",
                "fn f() { match x { A if (if crate::mutant_switch::on(7) { true } else { g }) => b, _ => c } }",
            ),
            (
                "fn f() -> S { S { a: 1, b, ..c } }",
                StructField,
                "a: 1",
                "",
                "fn f() -> S { (if crate::mutant_switch::on(7) { S {  b, ..c } } else { S { a: 1, b, ..c } }) }",
            ),
        ] {
            let one = mutant(source, 7, genre, replaced, replacement);
            let switched = switch(source, &[&one]).unwrap();
            assert_eq!(switched.text, expected);
            assert_eq!((switched.alone.len(), switched.unviable.len()), (0, 0), "{source}");
        }
    }

    #[test]
    fn one_inside_the_other() {
        let source = "fn f() { a == b && c }";
        let outer = mutant(source, 1, Genre::BinaryOperator, "&&", "||");
        let inner = mutant(source, 2, Genre::BinaryOperator, "==", "!=");
        let switched = switch(source, &[&outer, &inner]).unwrap();
        let on = "crate::mutant_switch::on";
        let expected = format!(
            "fn f() {{ (if {on}(1) {{ a == b || c }} else {{ (if {on}(2) {{ a != b }} else {{ a == b }}) && c }}) }}"
        );
        assert_eq!(switched.text, expected);
        // Each recorded range of the new text contains the id of its mutants.
        for (range, ids) in &switched.places {
            assert!(ids.iter().all(|id| expected[range.clone()].contains(&format!("({id})"))), "{range:?}");
        }
    }

    #[test]
    fn what_no_switch_can_be_written_for() {
        for (source, replaced, alone, unviable) in [
            ("const A: u8 = 1 + 2;", "+", 1, 0),
            ("const fn f() -> u8 { 1 + 2 }", "+", 1, 0),
            ("fn f() { if let Some(a) = b && c {} }", "&&", 0, 1),
            ("fn f() -> [u8; 1 + 2] { g() }", "+", 1, 0),
        ] {
            let one =
                mutant(source, 7, Genre::BinaryOperator, replaced, if replaced == "+" { "-" } else { "||" });
            let switched = switch(source, &[&one]).unwrap();
            assert_eq!((switched.alone.len(), switched.unviable.len()), (alone, unviable), "{source}");
            assert_eq!(switched.text, source);
        }
    }
}
