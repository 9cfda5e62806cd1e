//! Knobs of protocols as keys of `[protocol]`: one loop reads those of every service.

use std::time::Duration;

use paceline_proto::core::ConfigError;
use paceline_proto::core::knobs::{Kind, Knob, Knobs, Value};

use super::diagnostic::Diagnostic;
use super::form::Form;
use super::{Table, units};
use crate::LabError;

/// Notes the present name of a renamed key.
pub(super) fn note_renamed(problem: Diagnostic, former: &str, present: &str) -> Diagnostic {
    problem.with_note(format!("`{former}` is called `{present}` now"))
}

impl Table<'_> {
    /// Reads the knobs of a configuration that scenario files may set. A knob whose key is missing
    /// keeps its value.
    pub fn knobs<C: Knobs>(&mut self, config: &mut C) -> Result<(), LabError> {
        C::KNOBS.iter().filter(|knob| knob.is_key).try_for_each(|knob| self.knob(config, knob))
    }

    /// Reads some of the knobs of a configuration: where a service uses no others.
    ///
    /// # Panics
    /// If there is no knob of one of these names.
    pub fn knobs_named<C: Knobs>(
        &mut self,
        config: &mut C,
        names: &[&str],
    ) -> Result<(), LabError> {
        names.iter().try_for_each(|name| {
            let knob = C::KNOBS.iter().find(|knob| knob.name == *name);
            self.knob(config, knob.unwrap_or_else(|| panic!("no knob `{name}`")))
        })
    }

    /// Reads all knobs of a configuration but those of these names: also those that scenario files
    /// do not set, for the files of applications.
    pub fn knobs_without<C: Knobs>(
        &mut self,
        config: &mut C,
        without: &[&str],
    ) -> Result<(), LabError> {
        let mut read = C::KNOBS.iter().filter(|knob| !without.contains(&knob.name));
        read.try_for_each(|knob| self.knob(config, knob))
    }

    fn knob<C: Knobs>(&mut self, config: &mut C, knob: &'static Knob) -> Result<(), LabError> {
        let Some(value) = self.value_of(knob)? else {
            let value = config.value(knob.name).expect("the knob is one of the configuration");
            self.default_of(knob, value);
            return Ok(());
        };
        let never = knob.is_optional && value == Value::Time(Duration::ZERO);
        let value = if never { Value::Nothing } else { value };
        config.set(knob.name, value).map_err(|error| self.refused(&error))
    }

    fn value_of(&mut self, knob: &'static Knob) -> Result<Option<Value>, LabError> {
        let range = knob.range();
        self.describe(knob.name, None, None, knob.about);
        Ok(match knob.kind {
            Kind::Bytes => self.size_optional(knob.name)?.map(Value::Integer),
            Kind::Integer => {
                let end = |end, or| match end {
                    Some(Value::Integer(end)) => end,
                    _ => or,
                };
                let range = end(range.least, 0)..=end(range.most, u64::MAX);
                self.integer_optional(knob.name, range)?.map(Value::Integer)
            }
            Kind::Number => {
                let accepted = format!("a number, {range}");
                let end = |end| match end {
                    Some(Value::Number(end)) => Some(end),
                    _ => None,
                };
                let (least, most) = (end(range.least), end(range.most));
                let form = Form::Number(least.unwrap_or(f64::MIN), most.unwrap_or(f64::MAX));
                self.describe(knob.name, Some(form), None, "");
                self.number_accepted(knob.name, |_| true, &accepted)?.map(Value::Number)
            }
            Kind::Time => self.duration_optional(knob.name)?.map(Value::Time),
            Kind::Flag => self.boolean_optional(knob.name)?.map(Value::Flag),
            Kind::Word(words) => {
                let words: Vec<(&str, Value)> =
                    words.iter().map(|&word| (word, Value::Word(word))).collect();
                self.choice_optional(knob.name, &words)?
            }
        })
    }

    /// Keeps the value of a knob whose key is missing for `run.toml`.
    fn default_of(&mut self, knob: &Knob, value: Value) {
        let text = match value {
            Value::Nothing => return,
            Value::Integer(bytes) if knob.kind == Kind::Bytes => units::format_size(bytes).into(),
            Value::Integer(number) => i64::try_from(number).unwrap_or(i64::MAX).into(),
            Value::Number(number) => number.into(),
            Value::Time(time) => units::format_duration(time).into(),
            Value::Flag(flag) => flag.into(),
            Value::Word(word) => word.into(),
        };
        self.keep_default(knob.name, text);
    }

    /// A configuration is invalid: the error stands at the key of the knob at fault.
    pub fn refused(&self, error: &ConfigError) -> LabError {
        let accepted = match error {
            ConfigError::OutOfRange { range, .. } => range.to_string(),
            ConfigError::Invalid { expected, .. } => (*expected).to_owned(),
            ConfigError::Unknown => "a knob of the protocol".to_owned(),
        };
        self.error(error.knob(), error.to_string(), &accepted)
    }
}
