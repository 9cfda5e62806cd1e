//! Commands of NFD's management protocol and the responses to them, as far as prefixes go.
//!
//! Source: NFD management protocol, "Control command" and "RIB management".

use bytes::Bytes;
use paceline_proto::core::DecodeError;
use paceline_proto::ndn::Name;
use paceline_proto::ndn::tlv::{self, Reader, kind};

/// Type numbers.
mod field {
    pub const RESPONSE: u32 = 0x65;
    pub const CODE: u32 = 0x66;
    pub const TEXT: u32 = 0x67;
    pub const PARAMETERS: u32 = 0x68;
    pub const FACE_ID: u32 = 0x69;
    pub const COST: u32 = 0x6a;
    pub const FLAGS: u32 = 0x6c;
    pub const EXPIRATION: u32 = 0x6d;
    pub const ORIGIN: u32 = 0x6f;
}

/// The parameters of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The prefix.
    pub name: Option<Name>,
    /// The face that leads there; none or 0 for the one that the command came by.
    pub face: Option<u64>,
    /// The origin of the route: 0 is an application.
    pub origin: Option<u64>,
    /// Lower is preferred.
    pub cost: Option<u64>,
    /// 1: the route also applies to longer names.
    pub flags: Option<u64>,
    /// Lifetime of the route, ms.
    pub expires_after_ms: Option<u64>,
}

impl Parameters {
    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        if let Some(name) = &self.name {
            name.write_element(&mut value);
        }
        let numbers = [
            (field::FACE_ID, self.face),
            (field::ORIGIN, self.origin),
            (field::COST, self.cost),
            (field::FLAGS, self.flags),
            (field::EXPIRATION, self.expires_after_ms),
        ];
        for (kind, number) in numbers {
            if let Some(number) = number {
                tlv::put_integer_element(&mut value, kind, number);
            }
        }
        let mut element = Vec::new();
        tlv::put_element(&mut element, field::PARAMETERS, &value);
        element
    }

    /// Reads a whole element. Skips unknown fields, critical or not: they have no effect on a
    /// command about a prefix.
    pub fn decode(bytes: &Bytes) -> Result<Parameters, DecodeError> {
        let outer = Reader::new(bytes).element()?.ok_or(DecodeError::Missing("parameters"))?;
        if outer.kind != field::PARAMETERS {
            return Err(DecodeError::Unexpected(outer.kind.into()));
        }
        let mut parameters = Parameters::default();
        let mut reader = Reader::within(&outer);
        while let Some(element) = reader.element()? {
            let number = |name| tlv::integer_field(name, element.value).map(Some);
            match element.kind {
                kind::NAME => parameters.name = Some(Name::read(bytes, &element)?),
                field::FACE_ID => parameters.face = number("FaceId")?,
                field::ORIGIN => parameters.origin = number("Origin")?,
                field::COST => parameters.cost = number("Cost")?,
                field::FLAGS => parameters.flags = number("Flags")?,
                field::EXPIRATION => parameters.expires_after_ms = number("ExpirationPeriod")?,
                _ => {}
            }
        }
        Ok(parameters)
    }
}

/// The response to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// A status code as in HTTP.
    pub code: u64,
    /// Text for people.
    pub text: String,
    /// The resulting parameters. Clients expect them, empty after a failure.
    pub parameters: Parameters,
}

impl Response {
    /// That nothing was done.
    pub fn failed(code: u64, text: &str) -> Response {
        Response { code, text: text.to_owned(), parameters: Parameters::default() }
    }

    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        tlv::put_integer_element(&mut value, field::CODE, self.code);
        tlv::put_element(&mut value, field::TEXT, self.text.as_bytes());
        value.extend(self.parameters.encode());
        let mut element = Vec::new();
        tlv::put_element(&mut element, field::RESPONSE, &value);
        element
    }

    /// Reads code and text of a whole element.
    pub fn decode(bytes: &[u8]) -> Result<(u64, String), DecodeError> {
        let outer = Reader::new(bytes).element()?.ok_or(DecodeError::Missing("response"))?;
        if outer.kind != field::RESPONSE {
            return Err(DecodeError::Unexpected(outer.kind.into()));
        }
        let (mut code, mut text) = (None, String::new());
        let mut reader = Reader::within(&outer);
        while let Some(element) = reader.element()? {
            match element.kind {
                field::CODE => code = Some(tlv::integer_field("StatusCode", element.value)?),
                field::TEXT => text = String::from_utf8_lossy(element.value).into_owned(),
                _ => {}
            }
        }
        Ok((code.ok_or(DecodeError::Missing("StatusCode"))?, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    // Printed by python-ndn 0.5.2, as a response that it takes for one.
    const REGISTERED: &str = "651f6601c867024f4b6816070708056d69726363690201006f01006a01006c0101";
    const REFUSED: &str = "651e660201936716617574686f72697a6174696f6e2072656a65637465646800";

    #[test]
    fn responses_are_written_as_others_write_them_and_read_again() {
        let parameters = Parameters {
            name: Some("/mircc".parse().unwrap()),
            face: Some(256),
            origin: Some(0),
            cost: Some(0),
            flags: Some(1),
            expires_after_ms: None,
        };
        let registered = Response { code: 200, text: "OK".to_owned(), parameters };
        assert_eq!(hex(&registered.encode()), REGISTERED);
        let refused = Response::failed(403, "authorization rejected");
        assert_eq!(hex(&refused.encode()), REFUSED);
        for response in [registered, refused] {
            assert_eq!(Response::decode(&response.encode()), Ok((response.code, response.text)));
            let bytes = Bytes::from(response.parameters.encode());
            assert_eq!(Parameters::decode(&bytes), Ok(response.parameters));
        }
    }

    #[test]
    fn what_is_cut_short_or_something_else_is_refused() {
        let parameters =
            Parameters { name: Some("/p/q".parse().unwrap()), ..Parameters::default() };
        let whole = Bytes::from(parameters.encode());
        for end in 0..whole.len() {
            assert!(Parameters::decode(&whole.slice(..end)).is_err(), "{end}");
        }
        assert!(Parameters::decode(&Bytes::from_static(&[0x65, 0])).is_err());
        assert!(Parameters::decode(&Bytes::from_static(&[0x68, 5, 0x69, 3, 1, 1, 1])).is_err());
        assert!(Response::decode(&[0x65, 2, 0x67, 0]).is_err(), "it has no code");
    }
}
