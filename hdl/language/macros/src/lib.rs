//! The attribute [`block`](macro@block), which makes a function the description of a module.

use proc_macro::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};

/// Methods of the builder whose first argument may be left out: number of the other arguments, and suffix of the name.
const NAMED: [(&str, usize, &str); 13] = [
    ("input", 2, "_i"),
    ("output", 2, "_o"),
    ("wire", 1, ""),
    ("forward", 1, ""),
    ("reg", 1, "_q"),
    ("hold", 2, "_q"),
    ("delay", 1, "_q"),
    ("flag", 1, "_q"),
    ("counter", 2, "_q"),
    ("ghost", 1, "_q"),
    ("memory", 2, ""),
    ("any_sequence", 1, ""),
    ("instance", 1, ""),
];

/// Makes a function the description of a module: `#[block(m, "title", "purpose")]`.
///
/// `m` is the module's builder, which the function begins with and finishes. Between title and purpose there may be
/// arguments for the title, a format string. With `#[block(m)]` the function builds and finishes itself, or gets `m` as
/// an argument and describes a part of a module, without ports.
///
/// A signal, memory or part that is the value of a `let` needs no name: it has the variable's, with suffix `_i` for an
/// input port and `_q` for a register. `m.output(variable, "..")` adds `_o`. Elsewhere the name precedes the first
/// argument: `m.output(sum = a + b, "..")`. A doc comment before such a `let` is a comment in the Verilog.
///
/// A function with ports gets a module of its name beside it: `In` has a field for each input port, `Out` for each
/// output port. The ports are those that the function itself declares with a literal for a name. A port in a branch or
/// closure may be missing (`Option`); one with a number in its name, as in `format!("data{i}_i")`, is one of several
/// (`Vec`), with two as in `format!("row{i}_{k}_i")` a `Vec` of `Vec`s. A bundle of ports is one field:
/// `let layout = Layout::inputs(&m, ..)`, or `Layout::inputs_as(&m, "cols_", ..)`, which is `cols`; likewise
/// `Layout::outputs(..)` and `Layout::outputs_as(..)`. Ports that other functions declare are connected by name.
///
/// Where code reads outputs before the inputs are known, the instance comes first:
/// `let queue = fifo::Out::from(m.instance(..))`, and later `queue.connect(fifo::In { .. })`.
#[proc_macro_attribute]
pub fn block(attribute: TokenStream, function: TokenStream) -> TokenStream {
    let mut function: Vec<TokenTree> = function.into_iter().collect();
    let at = function.iter().position(|token| is_ident(token, "fn"));
    let (Some(at), Some(TokenTree::Group(body))) = (at, function.pop()) else {
        return failure("expected a function", Span::call_site());
    };
    let parts = split(attribute);
    let Some((builder, named)) = parts.split_first() else {
        return failure("expected the builder", Span::call_site());
    };
    let mut ports = Ports { builder: builder.to_string(), ports: Vec::new(), failure: None };
    let body_stream = ports.rewritten(body.stream(), false);
    if let Some((what, span)) = ports.failure {
        return failure(&what, span);
    }
    let stream = match named.split_last() {
        None => body_stream,
        Some((purpose, title)) => {
            let title = title.iter().map(TokenStream::to_string).collect::<Vec<_>>().join(", ");
            let new = format!("::ndp_hdl_language::ModuleBuilder::new(format!({title}), {purpose})");
            let [begin, end] = [format!("let {builder} = {new};"), format!("; {builder}.finish()")]
                .map(|text| text.parse::<TokenStream>().unwrap_or_default());
            [begin, body_stream, end].into_iter().collect()
        }
    };
    let visible = function[..at].iter().rposition(|token| is_ident(token, "pub")).unwrap_or(at);
    let visible: TokenStream = function[visible..at].iter().cloned().collect();
    let types = match &ports.ports[..] {
        [] => String::new(),
        _ => ports.types(&visible.to_string(), &function[at + 1].to_string()),
    };
    let mut body = Group::new(Delimiter::Brace, stream);
    body.set_span(Span::call_site());
    function.push(body.into());
    function.into_iter().chain(types.parse::<TokenStream>().unwrap_or_default()).collect()
}

fn failure(what: &str, span: Span) -> TokenStream {
    let text: TokenStream = format!("compile_error!({what:?});").parse().unwrap_or_default();
    let located = text.into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    located.collect()
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == name)
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// The text of a doc comment at the beginning of the tokens.
fn doc(tokens: &[TokenTree]) -> Option<String> {
    let [mark, TokenTree::Group(group), ..] = tokens else { return None };
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    let [name, _, TokenTree::Literal(text)] = &inside[..] else { return None };
    if !is_punct(Some(mark), '#') || !is_ident(name, "doc") {
        return None;
    }
    let text = text.to_string();
    let text = text.trim_start_matches('r').trim_matches('#');
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    // The compiler has put a backslash before quotes, apostrophes and backslashes.
    Some(["\"", "'", "\\"].iter().fold(text.to_owned(), |text, c| text.replace(&format!("\\{c}"), c)))
}

/// Whether a bar after the token begins a closure.
fn opens_closure(before: &TokenTree) -> bool {
    matches!(before, TokenTree::Punct(punct) if ",=".contains(punct.as_char())) || is_ident(before, "move")
}

fn split(stream: TokenStream) -> Vec<TokenStream> {
    let mut parts = vec![Vec::new()];
    for token in stream {
        if is_punct(Some(&token), ',') {
            parts.push(Vec::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(token);
        }
    }
    parts.into_iter().filter(|part| !part.is_empty()).map(TokenStream::from_iter).collect()
}

/// Takes a name off the first argument: `name = value`.
fn given_name(arguments: TokenStream) -> (Option<TokenTree>, TokenStream) {
    let mut tokens = arguments.clone().into_iter();
    match (tokens.next(), tokens.next(), tokens.clone().next()) {
        (Some(name @ TokenTree::Ident(_)), Some(mark), next)
            if is_punct(Some(&mark), '=') && !is_punct(next.as_ref(), '=') =>
        {
            (Some(name), tokens.collect())
        }
        _ => (None, arguments),
    }
}

/// The text of a first literal, or of one in `format!`.
fn literal_name(arguments: TokenStream) -> Option<String> {
    let mut tokens = arguments.into_iter().skip_while(|token| is_punct(Some(token), '&'));
    let text = match (tokens.next(), tokens.nth(1)) {
        (Some(TokenTree::Literal(name)), _) => name.to_string(),
        (Some(token), Some(TokenTree::Group(group))) if is_ident(&token, "format") => {
            group.stream().to_string()
        }
        _ => return None,
    };
    Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// A type's name in the form of a field's.
fn snake(path: &str) -> String {
    let mut name = String::new();
    for letter in path.rsplit(':').next().unwrap_or(path).chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[derive(PartialEq)]
struct Port {
    output: bool,
    /// Name of the port, or prefix of the names of a bundle's ports. Braces stand for a number.
    name: String,
    /// Name of the field for a bundle without a prefix, or with a prefix that other ports share.
    field: Option<String>,
    kind: String,
}

impl Port {
    fn field(&self, others: &[Self]) -> String {
        let ends: &[&str] = if self.output { &["_o", "_"] } else { &["_ni", "_i", "_"] };
        let stem_of = |port: &Self| {
            let name = &port.name;
            ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
        };
        let stem = stem_of(self);
        let same = |other: &&Self| other.output == self.output && *other != self && stem_of(other) == stem;
        let alike: Vec<&Self> = others.iter().filter(same).collect();
        let stem = match &self.field {
            Some(field) if stem.is_empty() => field.clone(),
            Some(_) if alike.is_empty() => stem,
            Some(field) if field.starts_with(&stem) || alike.iter().all(|other| other.field.is_some()) => {
                field.clone()
            }
            Some(field) => format!("{stem}_{field}"),
            None => stem,
        };
        match stem.replace("{}", "").trim_end_matches('_') {
            keyword @ ("ref" | "move" | "in" | "type" | "match" | "loop") => format!("r#{keyword}"),
            field => field.to_owned(),
        }
    }
}

/// The ports of a block, collected while its text is rewritten.
struct Ports {
    builder: String,
    ports: Vec<Port>,
    failure: Option<(String, Span)>,
}

impl Ports {
    /// Adds the names that the text leaves out. `inner`: the text may run never or several times.
    fn rewritten(&mut self, stream: TokenStream, inner: bool) -> TokenStream {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let (mut rewritten, mut closure) = (Vec::with_capacity(tokens.len()), false);
        let mut comment = String::new();
        for (at, token) in tokens.iter().enumerate() {
            if let Some(line) = doc(&tokens[at..]) {
                comment += &line;
                continue;
            }
            if at > 0 && doc(&tokens[at - 1..]).is_some() {
                continue;
            }
            if is_punct(Some(token), ';') && !std::mem::take(&mut comment).is_empty() {
                let what = "a comment for the Verilog stands before a signal: `let name = m.reg(..)`";
                self.failure.get_or_insert((what.to_owned(), token.span()));
            }
            closure |= is_punct(Some(token), '|')
                && at.checked_sub(1).is_none_or(|before| opens_closure(&tokens[before]));
            closure &= !is_punct(Some(token), ';');
            let inner = inner || closure;
            let TokenTree::Group(group) = token else {
                rewritten.push(token.clone());
                continue;
            };
            let of_builder = group.delimiter() == Delimiter::Parenthesis
                && at >= 3
                && is_ident(&tokens[at - 3], &self.builder)
                && is_punct(Some(&tokens[at - 2]), '.');
            let mut stream = group.stream();
            if group.delimiter() == Delimiter::Parenthesis {
                self.bundle(&tokens[..at], &stream, inner);
            }
            if of_builder {
                let variable =
                    (at >= 6 && is_punct(tokens.get(at - 4), '=') && is_ident(&tokens[at - 6], "let"))
                        .then(|| tokens[at - 5].clone());
                if variable.is_some() && !comment.is_empty() {
                    // `m.about("..").reg(..)`
                    let about = format!(".about({:?})", std::mem::take(&mut comment));
                    let about: TokenStream = about.parse().unwrap_or_default();
                    rewritten.splice(rewritten.len() - 2..rewritten.len() - 2, about);
                }
                stream = self.called(&tokens[at - 1], variable, stream, inner);
            }
            let braces = group.delimiter() == Delimiter::Brace;
            let mut new = Group::new(group.delimiter(), self.rewritten(stream, inner || braces));
            new.set_span(group.span());
            rewritten.push(new.into());
        }
        rewritten.into_iter().collect()
    }

    /// Adds the name to the arguments of a builder's method.
    fn called(
        &mut self,
        method: &TokenTree,
        variable: Option<TokenTree>,
        arguments: TokenStream,
        inner: bool,
    ) -> TokenStream {
        let name = method.to_string();
        let Some((_, count, end)) = NAMED.iter().find(|(known, ..)| *known == name) else { return arguments };
        let output = name == "output";
        let (given, arguments) = given_name(arguments);
        let parts = split(arguments.clone());
        let arguments = if parts.len() == *count {
            let variable = match output {
                true if given.is_none() => {
                    parts[0].clone().into_iter().find(|token| matches!(token, TokenTree::Ident(_)))
                }
                _ => given.or(variable),
            };
            let Some(variable) = variable else {
                self.failure.get_or_insert((format!("`{name}` needs a name here"), method.span()));
                return arguments;
            };
            let name = variable.to_string();
            let mut literal = Literal::string(&format!("{}{end}", name.trim_start_matches("r#")));
            literal.set_span(method.span());
            let comma = ",".parse::<TokenStream>().unwrap_or_default();
            [TokenTree::from(literal).into(), comma, arguments].into_iter().collect()
        } else {
            arguments
        };
        if matches!(&*name, "input" | "output") {
            self.declared(output, arguments.clone(), inner);
        }
        arguments
    }

    /// Collects a port with a literal for a name.
    fn declared(&mut self, output: bool, arguments: TokenStream, inner: bool) {
        let Some(name) = literal_name(arguments) else { return };
        self.add(output, &name, None, "Bits", inner);
    }

    /// Collects a port or bundle by its name, or by the prefix of its ports.
    fn add(&mut self, output: bool, name: &str, field: Option<String>, kind: &str, inner: bool) {
        // Braces hold only a number, which follows a word or the previous number.
        let (mut plain, mut rest, mut numbers) = (String::new(), name, 0);
        while let Some((before, (_, after))) =
            rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            if !before.ends_with(char::is_alphanumeric) && (numbers == 0 || before != "_") {
                return;
            }
            plain += &format!("{before}{{}}");
            (rest, numbers) = (after, numbers + 1);
        }
        let name = plain + rest;
        let kind = match (output, numbers) {
            (true, 0) => format!("Output<{kind}>"),
            (true, _) => format!("Outputs<{kind}>"),
            (false, 0) if inner => format!("Option<{kind}>"),
            (false, 0) => kind.to_owned(),
            (false, 1) => format!("Vec<{kind}>"),
            (false, _) => format!("Vec<Vec<{kind}>>"),
        };
        let port = Port { output, name, field, kind };
        if !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }

    /// Collects a bundle from a call `Kind::inputs(..)` or similar: `before` are the tokens up to its parentheses.
    fn bundle(&mut self, before: &[TokenTree], arguments: &TokenStream, inner: bool) {
        let Some((method, path)) = before.split_last() else { return };
        let (output, named) = match &*method.to_string() {
            "inputs" => (false, false),
            "inputs_as" => (false, true),
            "outputs" => (true, false),
            "outputs_as" => (true, true),
            _ => return,
        };
        // The type: a name, or names joined by `::`.
        let is_path = |at: usize| match &path[at] {
            TokenTree::Ident(_) => true,
            _ if is_punct(path.get(at + 1), ':') => true,
            token => is_punct(Some(token), ':') && at > 0 && is_punct(path.get(at - 1), ':'),
        };
        let begin = (0..path.len()).rposition(|at| !is_path(at)).map_or(0, |at| at + 1);
        let text: String = path[begin..].iter().map(TokenTree::to_string).collect();
        let Some(kind) = text.strip_suffix("::").map(str::to_owned) else { return };
        let name = match named {
            true => split(arguments.clone()).into_iter().nth(1).and_then(literal_name),
            false => Some(String::new()),
        };
        let Some(name) = name else { return };
        let field = match &path[..begin] {
            [.., first, variable, _] if is_ident(first, "let") && !named => variable.to_string(),
            _ => snake(&kind),
        };
        self.add(output, &name, Some(field), &kind, inner);
    }

    /// The module with the types.
    fn types(&self, visible: &str, block: &str) -> String {
        let [mut fields, mut uses] = [const { [String::new(), String::new()] }; 2];
        for (at, port) in self.ports.iter().enumerate() {
            let (mut field, Port { output, name, kind, .. }) = (port.field(&self.ports), port);
            let before = &self.ports[..at];
            if before.iter().any(|other| other.output == *output && other.field(&self.ports) == field) {
                field.push('s');
            }
            fields[usize::from(*output)] += &format!("#[doc = \"`{name}`.\"] pub {field}: {kind},");
            uses[usize::from(*output)] += &match output {
                true => {
                    let (kind, _) = kind.split_once('<').unwrap_or((kind, ""));
                    format!("{field}: {kind}::new(instance, {name:?}),")
                }
                false => format!("self.{field}.drive(instance, {name:?});"),
            };
        }
        let ([inputs, outputs], [connects, reads]) = (fields, uses);
        format!(
            "#[doc = \"Ports of the block.\"] #[allow(clippy::module_inception, dead_code, private_interfaces)] {visible} mod {block} {{
                #[allow(unused_imports)] pub use super::*;
                use ::ndp_hdl_language::{{Bits, Drives, InstanceBuilder, Inputs, Output, Outputs}};
                #[doc = \"What drives an instance.\"] #[derive(Clone, Debug)] pub struct In {{ {inputs} }}
                impl Inputs for In {{
                    type Out = Out;
                    fn connect(self, instance: InstanceBuilder) -> Out {{ {connects} instance.into() }}
                }}
                #[doc = \"What an instance drives.\"] #[derive(Clone, Copy, Debug)] pub struct Out {{
                    instance: InstanceBuilder, {outputs}
                }}
                impl ::std::ops::Deref for Out {{
                    type Target = InstanceBuilder;
                    fn deref(&self) -> &InstanceBuilder {{ &self.instance }}
                }}
                impl From<InstanceBuilder> for Out {{
                    fn from(instance: InstanceBuilder) -> Self {{ Self {{ instance, {reads} }} }}
                }}
            }}"
        )
    }
}
