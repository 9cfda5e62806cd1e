//! What a certificate permits: a role, under a name, for a time.

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::UnixTime;
use thiserror::Error;

use super::x509::{NEVER, date};

/// What a host with a certificate may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Take part in every service.
    Member,
    /// Ask members, and be no member.
    Client,
    /// Ask members, and change what they do.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Member, Role::Client, Role::Admin];

    /// The name in certificates and reports.
    pub fn name(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Client => "client",
            Role::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What operators call a host: 1 to 63 letters, digits, `-`, `_` and `.`. It proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostLabel(String);

impl HostLabel {
    /// The most characters.
    pub const LENGTH_MAX: usize = 63;

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostLabel {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<HostLabel, GrantError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_label = (1..=HostLabel::LENGTH_MAX).contains(&text.len());
        match is_label && text.chars().all(is_plain) {
            true => Ok(HostLabel(text.to_owned())),
            false => Err(GrantError::Label),
        }
    }
}

impl fmt::Display for HostLabel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a certificate is to permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What the host may do.
    pub role: Role,
    /// What operators call it.
    pub label: HostLabel,
    /// The first moment of the certificate.
    pub not_before: UnixTime,
    /// Its last moment.
    pub not_after: UnixTime,
}

impl Grant {
    /// Checks that it ends after it begins, and in a year that certificates can name.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self) -> Result<(), GrantError> {
        let (from, to) = (self.not_before, self.not_after);
        if from >= to || to.as_secs() > NEVER {
            return Err(GrantError::Dates { not_before: from, not_after: to });
        }
        Ok(())
    }
}

/// Why there cannot be such a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GrantError {
    /// The name of a host has other characters, or too many.
    #[error("the name of a host has 1 to 63 letters, digits, `-`, `_` and `.`")]
    Label,
    /// The certificate would end before it begins, or after the year 9999.
    #[error("there is no time from {} to {}", date(.not_before), date(.not_after))]
    Dates {
        /// The first moment.
        not_before: UnixTime,
        /// The last one.
        not_after: UnixTime,
    },
}

/// Where a certificate names role and label: as an alternative name of its subject.
const SCHEME: &str = "paceline://host/";

/// The alternative name for a role and a label.
pub(super) fn uri(role: Role, label: &HostLabel) -> String {
    format!("{SCHEME}{role}/{label}")
}

/// The role and the label in an alternative name.
pub(super) fn from_uri(uri: &str) -> Option<(Role, HostLabel)> {
    let (role, label) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    Some((Role::named(role)?, label.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_and_a_label_read_back_from_their_uri() {
        for role in Role::ALL {
            let label: HostLabel = "rack-7.db_1".parse().unwrap();
            assert_eq!(from_uri(&uri(role, &label)), Some((role, label)));
        }
        let wrong = ["host/member/a", "paceline://host/boss/a", "paceline://host/member/a/b"];
        for uri in wrong.into_iter().chain(["paceline://host/member", "paceline://host/member/"]) {
            assert_eq!(from_uri(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_label_has_no_characters_that_need_escapes() {
        let long = "x".repeat(HostLabel::LENGTH_MAX + 1);
        for label in ["", "a b", "a/b", "a%20", "\u{e9}", "a\n", long.as_str()] {
            assert_eq!(label.parse::<HostLabel>(), Err(GrantError::Label), "{label}");
        }
    }
}
