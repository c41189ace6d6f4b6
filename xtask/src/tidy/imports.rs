//! Finds out which files of a crate import from which other files. Names are resolved as by the compiler, except names that macros define. Tests are
//! left out.

use super::Source;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, UseTree};

/// The longest chain of imports that is followed; only a program that does not compile has a longer chain.
const HOPS_MAX: usize = 32;

/// The modules of one crate, the root first.
pub(super) struct Modules {
    all: Vec<Module>,
}

/// A module. A module inside a file (`mod x { … }`) has the file of the enclosing module.
struct Module {
    /// `keystone::users`; empty for the root.
    name: String,
    path: String,
    parent: Option<usize>,
    is_inline: bool,
    children: BTreeMap<String, usize>,
    /// The names of the items that are defined here.
    defined: BTreeSet<String>,
    imports: Vec<Import>,
    paths: Vec<Path>,
}

/// A path in the code of a module.
struct Path {
    segments: Vec<String>,
    line: usize,
}

/// `use path as name`; a glob has no name.
struct Import {
    name: Option<String>,
    path: Path,
}

/// The meaning of a name: a module, or an item of a module.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    Item(usize),
}

/// An import of one file from another.
pub(super) struct Edge {
    pub(super) path: String,
    /// The line of the first import.
    pub(super) line: usize,
}

/// For each module of the crate that is a file: the modules from which it imports, except its own ancestors and descendants.
pub(super) type Graph = BTreeMap<String, BTreeMap<String, Edge>>;

impl Modules {
    /// Reads the crate with this root (`lib.rs` or `main.rs`).
    ///
    /// # Errors
    /// When a file is not Rust: its path, and the reason.
    pub(super) fn read(root: &Source, sources: &HashMap<&str, &Source>) -> Result<Modules, (String, String)> {
        let mut modules = Modules { all: Vec::new() };
        let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let root_module = Module::new(String::new(), root.path.clone(), None);
        modules.read_file(root_module, root, folder, sources)?;
        Ok(modules)
    }

    fn read_file(
        &mut self,
        module: Module,
        source: &Source,
        folder: &str,
        sources: &HashMap<&str, &Source>,
    ) -> Result<usize, (String, String)> {
        let file = syn::parse_file(&source.text).map_err(|why| (source.path.clone(), why.to_string()))?;
        self.read_items(module, &file.items, folder, sources)
    }

    /// Reads the items of a module. `folder` has the files of the module's children.
    fn read_items(
        &mut self,
        mut module: Module,
        items: &[Item],
        folder: &str,
        sources: &HashMap<&str, &Source>,
    ) -> Result<usize, (String, String)> {
        let own = self.all.len();
        let items: Vec<&Item> = items.iter().filter(|item| !is_test(attributes(item))).collect();
        for item in &items {
            module.defined.extend(defined(item));
            Names(&mut module).visit_item(item);
        }
        let (outer, path) = (module.name.clone(), module.path.clone());
        self.all.push(module);
        for item in items {
            let Item::Mod(declared) = item else { continue };
            let name = declared.ident.to_string();
            let full = if outer.is_empty() { name.clone() } else { format!("{outer}::{name}") };
            let below = format!("{folder}/{name}");
            let child = match &declared.content {
                Some((_, items)) => {
                    let inline = Module { is_inline: true, ..Module::new(full, path.clone(), Some(own)) };
                    self.read_items(inline, items, &below, sources)?
                }
                None => {
                    let files = [format!("{below}.rs"), format!("{below}/mod.rs")];
                    let Some(source) = files.iter().find_map(|file| sources.get(file.as_str())) else {
                        continue;
                    };
                    let module = Module::new(full, source.path.clone(), Some(own));
                    self.read_file(module, source, &below, sources)?
                }
            };
            if let Some(module) = self.all.get_mut(own) {
                module.children.insert(name, child);
            }
        }
        Ok(own)
    }

    pub(super) fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (index, module) in self.all.iter().enumerate() {
            let Some(from) = self.file_of(index) else { continue };
            let edges = graph.entry(from.name.clone()).or_default();
            let imported = module.imports.iter().map(|import| &import.path);
            for written in imported.chain(&module.paths) {
                let target = match self.resolve(index, &written.segments, HOPS_MAX) {
                    Some(Target::Module(target) | Target::Item(target)) => self.file_of(target),
                    None => None,
                };
                let is_own =
                    |to: &&Module| is_within(&from.name, &to.name) || is_within(&to.name, &from.name);
                let Some(to) = target.filter(|to| !is_own(to)) else { continue };
                let first = Edge { path: from.path.clone(), line: written.line };
                let edge = edges.entry(to.name.clone()).or_insert(first);
                edge.line = edge.line.min(written.line);
            }
        }
        graph
    }

    /// The module of the file that contains this module.
    fn file_of(&self, index: usize) -> Option<&Module> {
        let module = self.all.get(index)?;
        if module.is_inline { self.file_of(module.parent?) } else { Some(module) }
    }

    /// Resolves a path in the code of a module. `None` if the path leads out of the crate.
    fn resolve(&self, from: usize, path: &[String], hops: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.below(0, rest, hops),
            "self" => self.below(from, rest, hops),
            "super" => self.below_parent(from, rest, hops),
            _ => self.named(from, first, rest, hops),
        }
    }

    fn below_parent(&self, from: usize, rest: &[String], hops: usize) -> Option<Target> {
        let parent = self.all.get(from)?.parent?;
        match rest.split_first() {
            Some((next, rest)) if next == "super" => self.below_parent(parent, rest, hops),
            _ => self.below(parent, rest, hops),
        }
    }

    /// Resolves a path below a module. A name that is not found in the module (a macro may define it) counts as an item of the module.
    fn below(&self, module: usize, path: &[String], hops: usize) -> Option<Target> {
        match path.split_first() {
            Some((first, rest)) => self.named(module, first, rest, hops).or(Some(Target::Item(module))),
            None => Some(Target::Module(module)),
        }
    }

    /// Resolves a name in a module, and the rest of the path after the name.
    fn named(&self, from: usize, name: &str, rest: &[String], hops: usize) -> Option<Target> {
        let hops = hops.checked_sub(1)?;
        let module = self.all.get(from)?;
        let child = module.children.get(name).copied();
        if let Some(child) = child.filter(|_| !rest.is_empty()) {
            return self.below(child, rest, hops);
        }
        if module.defined.contains(name) {
            return Some(Target::Item(from));
        }
        let imported = module.imports.iter().find(|import| import.name.as_deref() == Some(name));
        if let Some(import) = imported {
            return match self.resolve(from, &import.path.segments, hops)? {
                Target::Module(target) => self.below(target, rest, hops),
                item @ Target::Item(_) => Some(item),
            };
        }
        if let Some(child) = child {
            return Some(Target::Module(child));
        }
        let mut globs = module.imports.iter().filter(|import| import.name.is_none());
        globs.find_map(|glob| match self.resolve(from, &glob.path.segments, hops)? {
            Target::Module(target) => self.named(target, name, rest, hops),
            Target::Item(_) => None,
        })
    }
}

impl Module {
    fn new(name: String, path: String, parent: Option<usize>) -> Module {
        Module {
            name,
            path,
            parent,
            is_inline: false,
            children: BTreeMap::new(),
            defined: BTreeSet::new(),
            imports: Vec::new(),
            paths: Vec::new(),
        }
    }
}

/// Whether the inner module is the outer module or below it.
fn is_within(inner: &str, outer: &str) -> bool {
    outer.is_empty()
        || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// A visitor that adds imports and paths to the module.
struct Names<'m>(&'m mut Module);

impl<'a> Visit<'a> for Names<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if !is_test(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        if !is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        if !is_test(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    /// Inner modules are read by [`Modules::read_items`].
    fn visit_item_mod(&mut self, _: &'a syn::ItemMod) {}

    /// A path in a visibility is not an import.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if item.leading_colon.is_none() {
            imports(&item.tree, &mut Vec::new(), &mut self.0.imports);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if let Some(first) = path.segments.first().filter(|_| path.leading_colon.is_none()) {
            let line = first.ident.span().start().line;
            let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.0.paths.push(Path { segments, line });
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        visit::visit_macro(self, called);
        paths_in_tokens(called.tokens.clone(), &mut self.0.paths);
    }
}

fn imports(tree: &UseTree, before: &mut Vec<String>, found: &mut Vec<Import>) {
    let mut import = |name: Option<String>, last: Option<&syn::Ident>, line: usize| {
        let segments = before.iter().cloned().chain(last.map(ToString::to_string)).collect();
        found.push(Import { name, path: Path { segments, line } });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            imports(&path.tree, before, found);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            import(before.last().cloned(), None, name.ident.span().start().line);
        }
        UseTree::Name(name) => {
            import(Some(name.ident.to_string()), Some(&name.ident), name.ident.span().start().line);
        }
        UseTree::Rename(rename) => {
            let last = (rename.ident != "self").then_some(&rename.ident);
            import(Some(rename.rename.to_string()), last, rename.ident.span().start().line);
        }
        UseTree::Glob(glob) => import(None, None, glob.star_token.span().start().line),
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, before, found)),
    }
}

/// The arguments of a macro are tokens without syntax: every `a::b` in them counts as a path.
fn paths_in_tokens(tokens: TokenStream, found: &mut Vec<Path>) {
    let mut path = Path { segments: Vec::new(), line: 0 };
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            TokenTree::Ident(word) if colons == 2 && !path.segments.is_empty() => {
                path.segments.push(word.to_string());
                colons = 0;
            }
            other => {
                found.extend(Some(path).filter(|path| 1 < path.segments.len()));
                let line = other.span().start().line;
                let segments =
                    if let TokenTree::Ident(word) = &other { vec![word.to_string()] } else { Vec::new() };
                path = Path { segments, line };
                colons = 0;
                if let TokenTree::Group(group) = other {
                    paths_in_tokens(group.stream(), found);
                }
            }
        }
    }
    found.extend(Some(path).filter(|path| 1 < path.segments.len()));
}

/// The name of an item.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item with these attributes is for tests only: `#[test]` or `#[cfg(test)]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let configured = attribute.meta.require_list().ok().filter(|list| list.path.is_ident("cfg"));
        attribute.path().is_ident("test") || configured.is_some_and(|list| list.tokens.to_string() == "test")
    })
}
