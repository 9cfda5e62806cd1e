//! The named parts of a task, of which the command line may choose some.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A part with a name on the command line.
pub trait Named: Sync + 'static {
    /// What the help of the task calls a part.
    const PLACEHOLDER: &'static str;

    /// All parts, in their order.
    fn all() -> Vec<&'static Self>;
    /// The name.
    fn name(&self) -> &'static str;
    /// What it is, in a line.
    fn what(&self) -> &'static str;
}

/// The parts that the command line chooses.
#[derive(Args)]
pub struct Choice<T: Named> {
    /// Print the names, and run nothing
    #[arg(long)]
    list: bool,

    /// Only these, in the order of the list [default: all]
    #[arg(value_name = T::PLACEHOLDER, value_parser = parser::<T>())]
    named: Vec<&'static T>,
}

impl<T: Named> Choice<T> {
    /// The named parts, or all, in their order. With `--list` it prints them all and chooses none.
    pub fn parts(&self) -> Option<Vec<&'static T>> {
        if self.list {
            T::all().iter().for_each(|part| println!("{:<10} {}", part.name(), part.what()));
            return None;
        }
        let is_named = |part: &&T| self.named.iter().any(|named| named.name() == part.name());
        let is_chosen = |part: &&T| self.named.is_empty() || is_named(part);
        Some(T::all().into_iter().filter(is_chosen).collect())
    }
}

/// Finds a part by its name. Its errors and its help list what there is.
fn parser<T: Named>() -> impl TypedValueParser<Value = &'static T> {
    let names = T::all().into_iter().map(|part| PossibleValue::new(part.name()).help(part.what()));
    PossibleValuesParser::new(names).map(|name| {
        let part = T::all().into_iter().find(|part| part.name() == name);
        part.expect("the parser accepts names of parts only")
    })
}
