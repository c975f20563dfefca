//! Liberty text as a tree of groups, for the few cells that a netlist holds.

/// `kind (arguments) { attributes groups }`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// For example `cell`, `pin`, `internal_power`.
    pub kind: String,
    /// Text in the brackets, without quotes.
    pub argument: String,
    /// `name : value;` and `name (value);`, without quotes, in order.
    pub attributes: Vec<(String, String)>,
    pub groups: Vec<Group>,
}

impl Group {
    /// Bound on nesting; libraries have about six levels.
    const DEEPEST: usize = 64;

    /// Parses the first group of a text.
    ///
    /// # Errors
    /// A message that names the missing part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let clean: String = text.replace("\\\r\n", " ").replace("\\\n", " ");
        let mut rest = clean.as_str();
        let mut root = Self::default();
        root.fill(&mut rest, Self::DEEPEST)?;
        root.groups.into_iter().next().ok_or_else(|| "no group".to_owned())
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Group> {
        self.groups.iter().filter(move |group| group.kind == kind)
    }

    fn fill(&mut self, rest: &mut &str, levels: usize) -> Result<(), String> {
        loop {
            *rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
            if let Some(comment) = rest.strip_prefix("/*") {
                *rest = comment.split_once("*/").ok_or("unterminated comment")?.1;
                continue;
            }
            if rest.is_empty() {
                return Ok(());
            }
            if let Some(after) = rest.strip_prefix('}') {
                *rest = after;
                return Ok(());
            }
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if end == 0 {
                return Err(format!(
                    "'{}' where a name is expected",
                    rest.chars().take(20).collect::<String>()
                ));
            }
            let (name, after) = rest.split_at(end);
            *rest = after.trim_start();
            if let Some(after) = rest.strip_prefix(':') {
                // A value ends with a semicolon, or with the line.
                let end = after.find([';', '\n', '}']).unwrap_or(after.len());
                self.attributes.push((name.to_owned(), unquoted(&after[..end])));
                *rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix('(') {
                let end = closing(after).ok_or_else(|| format!("no ')' after '{name} ('"))?;
                let argument = unquoted(&after[..end]);
                *rest = after[end + 1..].trim_start();
                if let Some(after) = rest.strip_prefix('{') {
                    *rest = after;
                    let mut group = Self { kind: name.to_owned(), argument, ..Self::default() };
                    let deeper = levels.checked_sub(1);
                    let deeper = deeper
                        .ok_or_else(|| format!("groups are nested more than {} deep", Self::DEEPEST))?;
                    group.fill(rest, deeper)?;
                    self.groups.push(group);
                } else {
                    self.attributes.push((name.to_owned(), argument));
                }
            } else {
                return Err(format!("'{name}' is neither an attribute nor a group"));
            }
        }
    }
}

/// Index of the closing bracket; quoted ones do not count.
fn closing(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == ')' && !quoted).then_some(at)
    })
}

fn unquoted(text: &str) -> String {
    text.replace('"', "").trim().to_owned()
}

/// Numbers of a list such as `1, 2, 3`.
///
/// # Errors
/// The word that is not a number.
pub fn numbers(text: &str) -> Result<Vec<f64>, String> {
    let words = text.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| format!("'{word}' is no number"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_attributes_and_lists_are_read() {
        let text = "cell (\"A\") {\n area : 0.5\n pin (Y) { function : \"(!A) + B\"; t (x) { values ( \\\n \"1, 2\", \\\n \"3, 4\" \\\n); } } /* c */ }";
        let cell = Group::parse(text).unwrap();
        assert_eq!((cell.kind.as_str(), cell.argument.as_str()), ("cell", "A"));
        assert_eq!(cell.attribute("area"), Some("0.5"));
        let pin = cell.of_kind("pin").next().unwrap();
        assert_eq!(pin.attribute("function"), Some("(!A) + B"));
        let values = pin.groups[0].attribute("values").unwrap();
        assert_eq!(numbers(values).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn what_is_no_group_is_refused() {
        assert!(Group::parse("cell (A { }").unwrap_err().contains("')'"));
        assert!(Group::parse("cell A").unwrap_err().contains("neither"));
        assert!(numbers("1, x").unwrap_err().contains("'x'"));
        let deep = |levels: usize| format!("{}{}", "a () { ".repeat(levels), "}".repeat(levels));
        assert!(Group::parse(&deep(64)).is_ok());
        assert_eq!(Group::parse(&deep(100_000)).unwrap_err(), "groups are nested more than 64 deep");
    }
}
