use std::time::Duration;

use super::document::{Kind, Value};
use super::form::Form;
use super::units::{self, Rate};

/// A kind of value that a key can have: how it is read, written, and described.
pub(super) trait Read: Sized {
    const ACCEPTED: &'static str;
    const FORM: Form;
    fn read(value: &Value) -> Result<Self, Option<String>>;
    fn write(&self) -> toml::Value;
}

macro_rules! read_text_with_unit {
    ($name:ident($type:ty), $form:ident, $accepted:expr, $parse:path, $format:expr) => {
        pub(super) struct $name(pub(super) $type);
        impl Read for $name {
            const ACCEPTED: &'static str = $accepted;
            const FORM: Form = Form::$form;
            fn read(value: &Value) -> Result<Self, Option<String>> {
                match &value.kind {
                    Kind::Text(text) => $parse(text).map($name).map_err(Some),
                    _ => Err(None),
                }
            }
            fn write(&self) -> toml::Value {
                let format: fn($type) -> String = $format;
                toml::Value::String(format(self.0))
            }
        }
    };
}

read_text_with_unit!(RateValue(Rate), Rate, units::RATE_ACCEPTED, units::parse_rate, |rate| rate
    .to_string());
read_text_with_unit!(
    DurationValue(Duration),
    Duration,
    units::DURATION_ACCEPTED,
    units::parse_duration,
    units::format_duration
);
read_text_with_unit!(
    SizeValue(u64),
    Size,
    units::SIZE_ACCEPTED,
    units::parse_size,
    units::format_size
);
read_text_with_unit!(
    FrequencyValue(f64),
    Frequency,
    units::FREQUENCY_ACCEPTED,
    units::parse_frequency,
    units::format_frequency
);

pub(super) struct ProbabilityValue(pub(super) f64);
impl Read for ProbabilityValue {
    const ACCEPTED: &'static str = units::PROBABILITY_ACCEPTED;
    const FORM: Form = Form::Probability;
    fn read(value: &Value) -> Result<Self, Option<String>> {
        let share = match &value.kind {
            Kind::Text(text) => return units::parse_probability(text).map(Self).map_err(Some),
            Kind::Integer(number) => *number as f64,
            Kind::Float(number) => *number,
            _ => return Err(None),
        };
        if (0.0..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(Some(format!("{share} is not between 0 and 1")))
        }
    }
    fn write(&self) -> toml::Value {
        toml::Value::Float(self.0)
    }
}

pub(super) struct BooleanValue(pub(super) bool);
impl Read for BooleanValue {
    const ACCEPTED: &'static str = "true or false";
    const FORM: Form = Form::Boolean;
    fn read(value: &Value) -> Result<Self, Option<String>> {
        match value.kind {
            Kind::Boolean(truth) => Ok(Self(truth)),
            _ => Err(None),
        }
    }
    fn write(&self) -> toml::Value {
        toml::Value::Boolean(self.0)
    }
}

pub(super) struct TextValue(pub(super) String);
impl Read for TextValue {
    const ACCEPTED: &'static str = "text in quotes";
    const FORM: Form = Form::Text;
    fn read(value: &Value) -> Result<Self, Option<String>> {
        match &value.kind {
            Kind::Text(text) => Ok(Self(text.clone())),
            _ => Err(None),
        }
    }
    fn write(&self) -> toml::Value {
        toml::Value::String(self.0.clone())
    }
}
