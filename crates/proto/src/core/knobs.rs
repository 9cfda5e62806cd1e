//! Knobs as data: one list declares the settings of a protocol.
//!
//! `knobs!` turns a list of fields into the configuration, its defaults, its checks and
//! [`Knobs::KNOBS`], which scenario files, the command line and the documentation read. A knob is
//! therefore declared once: name, type, unit, default, range and description.

use std::fmt;
use std::ops::{RangeFrom, RangeInclusive};
use std::time::Duration;

use thiserror::Error;

/// 1,024 bytes.
pub(crate) const KIB: usize = 1 << 10;
/// 1,048,576 bytes.
pub(crate) const MIB: usize = 1 << 20;
/// The shortest time above zero: the lower bound of a time that has to pass.
pub const ABOVE_ZERO: Duration = Duration::from_nanos(1);

/// The value of a knob.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A whole number, or bytes.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A time.
    Time(Duration),
    /// On or off.
    Flag(bool),
    /// One of a few words.
    Word(&'static str),
    /// No value: of an optional knob.
    Nothing,
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        use Value::{Flag, Integer, Nothing, Number, Time, Word};
        match (self, other) {
            (Integer(one), Integer(other)) => one == other,
            // By bits: NaN equals itself, so that this is an equivalence.
            (Number(one), Number(other)) => one.to_bits() == other.to_bits(),
            (Time(one), Time(other)) => one == other,
            (Flag(one), Flag(other)) => one == other,
            (Word(one), Word(other)) => one == other,
            (Nothing, Nothing) => true,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(number) => write!(f, "{number}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Time(time) => write_time(f, *time),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Word(word) => f.write_str(word),
            Value::Nothing => f.write_str("none"),
        }
    }
}

fn write_time(f: &mut fmt::Formatter<'_>, time: Duration) -> fmt::Result {
    let nanos = time.as_nanos();
    let units = [
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    match units.into_iter().find(|&(_, factor)| nanos != 0 && nanos.is_multiple_of(factor)) {
        Some((unit, factor)) => write!(f, "{}{unit}", nanos / factor),
        None if nanos == 0 => f.write_str("0s"),
        None => write!(f, "{nanos}ns"),
    }
}

/// What kind of value a knob takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Integer,
    /// A whole number of bytes.
    Bytes,
    /// A number.
    Number,
    /// A time.
    Time,
    /// On or off.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// The values that a knob accepts; both ends are among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least; none if there is no lower bound.
    pub least: Option<Value>,
    /// The largest; none if there is no upper bound.
    pub most: Option<Value>,
}

impl Range {
    /// Every value of the knob's type.
    pub const ANY: Range = Range { least: None, most: None };
}

/// As messages and tables say it: `1 to 16`, `at least 4`, `above 0`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let above_zero = match self.least {
            Some(Value::Time(ABOVE_ZERO)) => true,
            Some(Value::Number(least)) => least == f64::MIN_POSITIVE,
            _ => false,
        };
        match (self.least, self.most) {
            (None, None) => f.write_str("any"),
            (Some(_), None) if above_zero => f.write_str("above 0"),
            (Some(_), Some(most)) if above_zero => write!(f, "above 0, at most {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
        }
    }
}

/// One setting of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its name: in the configuration, in scenario files and in the documentation.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: Kind,
    /// What a whole number counts; empty if the kind says it.
    pub unit: &'static str,
    /// True if it may be without a value.
    pub is_optional: bool,
    /// True if scenario files may set it. Others are for applications of the library.
    pub is_key: bool,
    /// What it is and what it costs: the documentation of its field.
    pub about: &'static str,
    #[doc(hidden)]
    pub default_of: fn() -> Value,
    #[doc(hidden)]
    pub range_of: fn() -> Range,
}

impl Knob {
    /// Its value in a default configuration.
    pub fn default(&self) -> Value {
        (self.default_of)()
    }

    /// What it accepts, whatever the other knobs are.
    pub fn range(&self) -> Range {
        (self.range_of)()
    }

    /// A value of it as text, bytes with a unit: `64KiB`.
    pub fn show(&self, value: Value) -> String {
        let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match value {
            Value::Integer(bytes) if self.kind == Kind::Bytes => {
                let divides =
                    |&(_, factor): &(&str, u64)| bytes > 0 && bytes.is_multiple_of(factor);
                let (unit, factor) = units.into_iter().find(divides).unwrap_or(("B", 1));
                format!("{}{unit}", bytes / factor)
            }
            value => value.to_string(),
        }
    }

    /// What it accepts as text, bytes with a unit; empty if that is every value of its kind.
    pub fn show_range(&self) -> String {
        let range = self.range();
        match (self.kind, range.least, range.most) {
            (Kind::Word(words), ..) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                words.join(", ")
            }
            (_, None, None) => String::new(),
            (Kind::Bytes, Some(least), Some(most)) => {
                format!("{} to {}", self.show(least), self.show(most))
            }
            (Kind::Bytes, Some(least), None) => format!("at least {}", self.show(least)),
            _ => range.to_string(),
        }
    }
}

/// A configuration whose knobs can be listed, read and set by name.
pub trait Knobs {
    /// The knobs, in the order of their declaration.
    const KNOBS: &'static [Knob];

    /// Sets a knob by its name.
    ///
    /// # Errors
    /// If there is no such knob, or the value is of another kind or outside its range; nothing
    /// has changed then.
    fn set(&mut self, knob: &str, value: Value) -> Result<(), ConfigError>;

    /// The value of a knob; none if there is no knob of this name.
    fn value(&self, knob: &str) -> Option<Value>;
}

/// Why a configuration is invalid. The caller that set the knob is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A knob is outside its range.
    #[error("{knob} is {value}, expected {range}")]
    OutOfRange {
        /// The knob's name.
        knob: &'static str,
        /// Its value.
        value: Value,
        /// Its range.
        range: Range,
    },
    /// A knob does not go with the others.
    #[error("{knob} is {value}, expected {expected}")]
    Invalid {
        /// The knob's name.
        knob: &'static str,
        /// Its value.
        value: Value,
        /// What the others allow.
        expected: &'static str,
    },
    /// There is no knob of this name.
    #[error("there is no knob of this name")]
    Unknown,
}

impl ConfigError {
    /// The name of the knob at fault; empty if there is no such knob.
    pub fn knob(&self) -> &'static str {
        match self {
            ConfigError::OutOfRange { knob, .. } | ConfigError::Invalid { knob, .. } => knob,
            ConfigError::Unknown => "",
        }
    }

    #[doc(hidden)]
    pub fn out_of(knob: &'static str, value: Value, range: Range) -> ConfigError {
        ConfigError::OutOfRange { knob, value, range }
    }

    /// `Ok` if the rule holds, else an error about this knob.
    pub fn unless(
        holds: bool,
        knob: &'static str,
        value: impl Setting,
        expected: &'static str,
    ) -> Result<(), ConfigError> {
        match holds {
            true => Ok(()),
            false => Err(ConfigError::Invalid { knob, value: value.value(), expected }),
        }
    }
}

/// A type that a knob may have.
pub trait Setting: Copy {
    /// What its range is of: itself, or what an optional one holds.
    type Inner: Setting;
    /// The kind of its values.
    const KIND: Kind;
    /// True if it may be without a value.
    const IS_OPTIONAL: bool = false;

    /// What the range applies to; none if it has no value.
    fn inner(self) -> Option<Self::Inner>;

    /// The value.
    fn value(self) -> Value;

    /// The setting of this value; none if it is of another kind, or does not fit the type.
    fn of(value: Value) -> Option<Self>;
}

macro_rules! settings {
    ($($type:ty, $kind:ident: |$value:ident| $to:expr, |$from:ident| $of:expr;)*) => {$(
        impl Setting for $type {
            type Inner = $type;
            const KIND: Kind = Kind::$kind;

            fn inner(self) -> Option<$type> {
                Some(self)
            }

            fn value(self) -> Value {
                let $value = self;
                Value::$kind($to)
            }

            fn of(value: Value) -> Option<$type> {
                match value {
                    Value::$kind($from) => $of,
                    _ => None,
                }
            }
        }
    )*};
}

settings! {
    u8, Integer: |value| value.into(), |from| from.try_into().ok();
    u32, Integer: |value| value.into(), |from| from.try_into().ok();
    u64, Integer: |value| value, |from| Some(from);
    usize, Integer: |value| value as u64, |from| from.try_into().ok();
    f64, Number: |value| value, |from| Some(from);
    Duration, Time: |value| value, |from| Some(from);
    bool, Flag: |value| value, |from| Some(from);
}

impl<T: Setting<Inner = T>> Setting for Option<T> {
    type Inner = T;
    const KIND: Kind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn inner(self) -> Option<T> {
        self
    }

    fn value(self) -> Value {
        self.map_or(Value::Nothing, T::value)
    }

    fn of(value: Value) -> Option<Option<T>> {
        match value {
            Value::Nothing => Some(None),
            value => T::of(value).map(Some),
        }
    }
}

/// A range as `knobs!` takes it: `4..` or `1..=16`.
pub trait Limits<T> {
    /// The least and the largest value.
    fn ends(&self) -> (Option<T>, Option<T>);
}

impl<T: Copy> Limits<T> for RangeFrom<T> {
    fn ends(&self) -> (Option<T>, Option<T>) {
        (Some(self.start), None)
    }
}

impl<T: Copy> Limits<T> for RangeInclusive<T> {
    fn ends(&self) -> (Option<T>, Option<T>) {
        (Some(*self.start()), Some(*self.end()))
    }
}

/// The range of a knob of type `T`, as data.
#[doc(hidden)]
pub fn range_of<T: Setting>(limits: &impl Limits<T::Inner>) -> Range {
    let (least, most) = limits.ends();
    Range { least: least.map(T::Inner::value), most: most.map(T::Inner::value) }
}

/// Checks a knob against its range.
#[doc(hidden)]
pub fn check_range<T: Setting>(
    knob: &'static str,
    setting: T,
    limits: &impl Limits<T::Inner>,
) -> Result<(), ConfigError>
where
    T::Inner: PartialOrd,
{
    let Some(inner) = setting.inner() else {
        return Ok(());
    };
    let (least, most) = limits.ends();
    // Negated comparisons would let NaN pass.
    if least.is_none_or(|least| inner >= least) && most.is_none_or(|most| inner <= most) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { knob, value: inner.value(), range: range_of::<T>(limits) })
}

/// The name of a knob: that of its field, without the `is_` or `has_` of a flag.
#[doc(hidden)]
pub const fn name_of(field: &'static str) -> &'static str {
    let bytes = field.as_bytes();
    let cut = match bytes {
        [b'i', b's', b'_', ..] => 3,
        [b'h', b'a', b's', b'_', ..] => 4,
        _ => 0,
    };
    field.split_at(cut).1
}

/// The kind of a knob: its type's, or bytes if that is its unit.
#[doc(hidden)]
pub const fn kind_of(kind: Kind, unit: &str) -> Kind {
    match (kind, unit.as_bytes()) {
        (Kind::Integer, b"bytes") => Kind::Bytes,
        (kind, _) => kind,
    }
}

/// Gives an enum the words by which scenario files and tables name its variants.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($type:ty { $($word:literal => $variant:ident),* $(,)? }) => {
        impl $crate::core::knobs::Setting for $type {
            type Inner = $type;
            const KIND: $crate::core::knobs::Kind = $crate::core::knobs::Kind::Word(&[$($word),*]);

            fn inner(self) -> Option<$type> {
                Some(self)
            }

            fn value(self) -> $crate::core::knobs::Value {
                $crate::core::knobs::Value::Word(match self {
                    $(<$type>::$variant => $word,)*
                })
            }

            fn of(value: $crate::core::knobs::Value) -> Option<$type> {
                match value {
                    $($crate::core::knobs::Value::Word($word) => Some(<$type>::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
#[doc(inline)]
pub use words;

/// Declares a configuration: struct, defaults, checks, and its knobs as data.
///
/// ```text
/// knobs! {
///     /// The knobs of the protocol.
///     pub struct Config {
///         /// Bytes of one hop that are under way.
///         hop_bytes / with_hop_bytes: usize [bytes] = 32 * KIB, 4..;
///         /// How often a silent sender says how much it has sent.
///         beats_max / with_beats_max: u32 [times; library] = 4, 1..=16;
///     }
///     with { roster: Arc<View> = Arc::default(); }
///     rules: Config::rules;
/// }
/// ```
///
/// Each knob has a setter and a getter; fields written `pub name: type` instead are set as fields,
/// and a literal after the struct's name goes before the names of its knobs. `[unit]` says what a
/// number counts; `[unit; library]` keeps a knob out of scenario files. Fields of `with` are no
/// knobs. `rules` check the knobs against each other, after their ranges.
#[doc(hidden)]
#[macro_export]
macro_rules! knobs {
    (
        $(#[$attr:meta])*
        pub struct $Config:ident {$(
            $(#[doc = $doc:literal])*
            $field:ident / $with:ident: $type:ty $([$unit:ident $(; $library:ident)?])?
                = $default:expr $(, $range:expr)?;
        )*}
        $(with {$($other:ident: $other_type:ty = $other_default:expr;)*})?
        $(rules: $rules:expr;)?
    ) => {
        $(#[$attr])*
        pub struct $Config {
            $($(pub(super) $other: $other_type,)*)?
            $(pub(super) $field: $type,)*
        }

        impl $Config {$(
            $(#[doc = $doc])*
            pub fn $with(mut self, value: $type) -> $Config {
                self.$field = value;
                self
            }

            #[doc = concat!("What [`", stringify!($Config), "::", stringify!($with), "`] sets.")]
            pub fn $field(&self) -> $type {
                self.$field
            }
        )*}

        $crate::core::knobs::knobs! {
            @data $Config () {$(
                [$($doc)*] $field: $type, ($($unit $($library)?)?), $default $(, $range)?;
            )*}
            ($($($other = $other_default;)*)?)
            ($($rules)?)
        }
    };
    (
        $(#[$attr:meta])*
        pub struct $Config:ident $($prefix:literal)? {$(
            $(#[doc = $doc:literal])*
            pub $field:ident: $type:ty $([$unit:ident $(; $library:ident)?])?
                = $default:expr $(, $range:expr)?;
        )*}
        $(with {$($(#[$other_attr:meta])* $other:ident: $other_type:ty = $other_default:expr;)*})?
        $(rules: $rules:expr;)?
    ) => {
        $(#[$attr])*
        pub struct $Config {
            $($($(#[$other_attr])* pub $other: $other_type,)*)?
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        $crate::core::knobs::knobs! {
            @data $Config ($($prefix)?) {$(
                [$($doc)*] $field: $type, ($($unit $($library)?)?), $default $(, $range)?;
            )*}
            ($($($other = $other_default;)*)?)
            ($($rules)?)
        }
    };
    (
        @data $Config:ident $prefix:tt {$(
            [$($doc:literal)*] $field:ident: $type:ty, $unit:tt, $default:expr $(, $range:expr)?;
        )*}
        ($($other:ident = $other_default:expr;)*)
        ($($rules:expr)?)
    ) => {
        impl Default for $Config {
            fn default() -> $Config {
                $Config { $($other: $other_default,)* $($field: $default,)* }
            }
        }

        impl $crate::core::knobs::Knobs for $Config {
            const KNOBS: &'static [$crate::core::knobs::Knob] = &[$($crate::core::knobs::Knob {
                name: $crate::core::knobs::knobs!(@name $prefix $field),
                kind: $crate::core::knobs::kind_of(
                    <$type as $crate::core::knobs::Setting>::KIND,
                    $crate::core::knobs::knobs!(@unit $unit),
                ),
                unit: $crate::core::knobs::knobs!(@unit $unit),
                is_optional: <$type as $crate::core::knobs::Setting>::IS_OPTIONAL,
                is_key: $crate::core::knobs::knobs!(@is_key $unit),
                about: concat!($($doc),*).trim_ascii(),
                default_of: || <$type as $crate::core::knobs::Setting>::value($default),
                range_of: || $crate::core::knobs::knobs!(@range $type $(, $range)?),
            }),*];

            fn set(
                &mut self,
                knob: &str,
                value: $crate::core::knobs::Value,
            ) -> Result<(), $crate::core::ConfigError> {
                $(
                    if knob == $crate::core::knobs::knobs!(@name $prefix $field) {
                        let knob = $crate::core::knobs::knobs!(@name $prefix $field);
                        let range = || $crate::core::knobs::knobs!(@range $type $(, $range)?);
                        let setting = <$type as $crate::core::knobs::Setting>::of(value);
                        let refused = || $crate::core::ConfigError::out_of(knob, value, range());
                        let setting = setting.ok_or_else(refused)?;
                        $($crate::core::knobs::check_range(knob, setting, &($range))?;)?
                        self.$field = setting;
                        return Ok(());
                    }
                )*
                Err($crate::core::ConfigError::Unknown)
            }

            fn value(&self, knob: &str) -> Option<$crate::core::knobs::Value> {
                $(if knob == $crate::core::knobs::knobs!(@name $prefix $field) {
                    return Some($crate::core::knobs::Setting::value(self.$field));
                })*
                None
            }
        }

        impl $Config {
            /// Checks the knobs: each against its range, then all against each other.
            ///
            /// # Errors
            /// With the first that is invalid.
            pub fn check(&self) -> Result<(), $crate::core::ConfigError> {
                $($($crate::core::knobs::check_range(
                    $crate::core::knobs::knobs!(@name $prefix $field),
                    self.$field,
                    &($range),
                )?;)?)*
                $(
                    let rules: fn(&$Config) -> Result<(), $crate::core::ConfigError> = $rules;
                    rules(self)?;
                )?
                Ok(())
            }

            /// The configuration, checked ([`Self::check`]).
            ///
            /// # Errors
            /// With the first knob that is invalid.
            pub fn build(self) -> Result<$Config, $crate::core::ConfigError> {
                self.check()?;
                Ok(self)
            }
        }
    };
    (@name ($prefix:literal) $field:ident) => { concat!($prefix, stringify!($field)) };
    (@name () $field:ident) => {
        const { $crate::core::knobs::name_of(stringify!($field)) }
    };
    (@unit ($unit:ident $($library:ident)?)) => { stringify!($unit) };
    (@unit ()) => { "" };
    (@is_key ($unit:ident library)) => { false };
    (@is_key $unit:tt) => { true };
    (@range $type:ty, $range:expr) => { $crate::core::knobs::range_of::<$type>(&($range)) };
    (@range $type:ty) => { $crate::core::knobs::Range::ANY };
}
#[doc(inline)]
pub use knobs;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Shade {
        Light,
        Dark,
    }

    words! { Shade { "light" => Light, "dark" => Dark } }

    knobs! {
        /// A lamp.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Lamp {
            /// What it holds,
            /// at most.
            oil_bytes / with_oil_bytes: usize [bytes] = 32 * KIB, 4..;
            /// How long it burns.
            burns_for / with_burns_for: Option<Duration> = None, ABOVE_ZERO..;
            /// How bright it is.
            glow / with_glow: f64 = 0.5, f64::MIN_POSITIVE..=1.0;
            /// Which one.
            shade / with_shade: Shade = Shade::Light;
            /// Whether it is lit.
            is_lit / with_lit: bool [flag; library] = false;
        }
        with { owner: u32 = 7; }
        rules: |lamp| {
            let holds = !lamp.is_lit || lamp.shade == Shade::Dark;
            ConfigError::unless(holds, "lit", lamp.is_lit, "no light in a light shade")
        };
    }

    #[test]
    fn one_declaration_gives_defaults_setters_and_data() {
        let lamp = Lamp::default();
        assert_eq!((lamp.owner, lamp.oil_bytes(), lamp.burns_for()), (7, 32 << 10, None));
        let set =
            lamp.with_oil_bytes(5).with_burns_for(Some(ABOVE_ZERO)).with_glow(0.1).with_lit(true);
        assert_eq!((set.oil_bytes(), set.glow(), set.is_lit()), (5, 0.1, true));
        assert_eq!((set.shade(), set.burns_for()), (Shade::Light, Some(ABOVE_ZERO)));
        let [oil, burns, glow, shade, lit] = Lamp::KNOBS else { panic!("five knobs") };
        assert_eq!((oil.name, oil.kind, oil.is_key), ("oil_bytes", Kind::Bytes, true));
        assert_eq!(oil.about, "What it holds, at most.");
        assert_eq!(
            (oil.default(), oil.range().to_string()),
            (Value::Integer(32_768), "at least 4".into())
        );
        assert_eq!((burns.is_optional, burns.default()), (true, Value::Nothing));
        assert_eq!(burns.range().to_string(), "above 0");
        assert_eq!(glow.range().to_string(), "above 0, at most 1");
        assert_eq!(shade.kind, Kind::Word(&["light", "dark"]));
        assert_eq!((lit.name, lit.is_key), ("lit", false));
    }

    #[test]
    fn a_knob_is_set_by_name_within_its_range() {
        let mut lamp = Lamp::default();
        lamp.set("shade", Value::Word("dark")).unwrap();
        lamp.set("burns_for", Value::Time(Duration::from_millis(90))).unwrap();
        assert_eq!(lamp.value("burns_for").unwrap().to_string(), "90ms");
        let before = lamp.clone();
        let said = |lamp: &mut Lamp, knob, value| lamp.set(knob, value).unwrap_err().to_string();
        assert_eq!(
            said(&mut lamp, "glow", Value::Number(f64::NAN)),
            "glow is NaN, expected above 0, at most 1"
        );
        assert_eq!(
            said(&mut lamp, "burns_for", Value::Time(Duration::ZERO)),
            "burns_for is 0s, expected above 0"
        );
        assert_eq!(
            said(&mut lamp, "oil_bytes", Value::Integer(3)),
            "oil_bytes is 3, expected at least 4"
        );
        assert_eq!(
            said(&mut lamp, "oil_bytes", Value::Flag(true)),
            "oil_bytes is true, expected at least 4"
        );
        assert_eq!(said(&mut lamp, "wick", Value::Flag(true)), "there is no knob of this name");
        assert_eq!(lamp, before);
    }

    #[test]
    fn knobs_are_checked_against_each_other() {
        assert!(Lamp::default().with_lit(true).with_shade(Shade::Dark).build().is_ok());
        let error = Lamp::default().with_lit(true).build().unwrap_err();
        assert_eq!(error.to_string(), "lit is true, expected no light in a light shade");
        assert_eq!(Lamp::default().with_oil_bytes(1).build().unwrap_err().knob(), "oil_bytes");
    }
}
