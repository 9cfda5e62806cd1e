//! The named parts of a task, of which the command line may choose some.

/// A part with a name on the command line.
pub trait Named {
    /// The name.
    fn name(&self) -> &'static str;
    /// What it is, in a line.
    fn what(&self) -> &'static str;
}

/// The named parts, or all, in their order. With `--list` among the names it prints what there is
/// and chooses nothing.
pub fn chosen<'a, T: Named>(
    kind: &str,
    parts: &'a [T],
    names: &[String],
) -> Result<Option<Vec<&'a T>>, String> {
    if names.iter().any(|name| name == "--list") {
        parts.iter().for_each(|part| println!("{:<10} {}", part.name(), part.what()));
        return Ok(None);
    }
    if let Some(name) = names.iter().find(|name| parts.iter().all(|part| part.name() != **name)) {
        let known: Vec<&str> = parts.iter().map(Named::name).collect();
        return Err(format!("there is no {kind} `{name}`; there are {}", known.join(", ")));
    }
    let is_named = |part: &&T| names.is_empty() || names.iter().any(|name| name == part.name());
    Ok(Some(parts.iter().filter(is_named).collect()))
}
