//! Suggestions for mistyped names.

/// Jaro similarity above which a name counts as mistyped.
const SIMILAR: f64 = 0.8;

/// End of a message about an unknown name: the most similar known one, if any.
///
/// ```
/// assert_eq!(ndp_config::nearest("shirt", &["long", "short"]), "; did you mean 'short'?");
/// assert_eq!(ndp_config::nearest("x", &["long", "short"]), "");
/// ```
pub fn nearest(name: &str, known: &[&str]) -> String {
    let similar = known.iter().map(|known| (strsim::jaro(name, known), known));
    let nearest = similar.filter(|(similarity, _)| *similarity > SIMILAR).max_by(|a, b| a.0.total_cmp(&b.0));
    nearest.map_or_else(String::new, |(_, known)| format!("; did you mean '{known}'?"))
}

/// Adds advice to serde's message: the nearest known field or value, or how to write a whole number.
///
/// ```
/// let said = "unknown field `lane`, expected one of `lanes`, `banks`";
/// assert_eq!(ndp_config::with_advice(said), format!("{said}; did you mean 'lanes'?"));
/// let said = "invalid type: floating point `1000.0`, expected u32";
/// assert_eq!(ndp_config::with_advice(said), format!("{said}: write it in digits, without a point or an exponent"));
/// assert_eq!(ndp_config::with_advice("missing field `lanes`"), "missing field `lanes`");
/// ```
pub fn with_advice(message: &str) -> String {
    // u8, i64 and the like.
    if message.contains("invalid type: floating point")
        && ["expected u", "expected i"].iter().any(|e| message.contains(e))
    {
        return format!("{message}: write it in digits, without a point or an exponent");
    }
    if message.contains("wanted string or table") {
        return format!("{message}: write a name in quotes; the documentation of the key lists them");
    }
    let unknown = ["unknown field `", "unknown variant `"].iter().find_map(|start| message.find(start));
    let quoted: Vec<&str> =
        message[unknown.unwrap_or(message.len())..].split('`').skip(1).step_by(2).collect();
    let end = quoted.split_first().map(|(name, known)| nearest(name, known));
    format!("{message}{}", end.unwrap_or_default())
}
