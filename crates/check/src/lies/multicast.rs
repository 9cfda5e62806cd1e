use paceline_proto::core::Lane;
use paceline_proto::multicast::Message;
use paceline_proto::{group, slingshot};

use super::{Draw, Source};

impl Draw for Message {
    fn draw(source: &mut Source<'_>) -> Message {
        match source.flag() {
            true => Message::Group(group::Message::draw(source)),
            false => Message::Slingshot(slingshot::Message::draw(source)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Message::Group(message) => message.kind(),
            Message::Slingshot(message) => message.kind(),
        }
    }

    fn kinds() -> Vec<&'static str> {
        [group::Message::kinds(), slingshot::Message::kinds()].concat()
    }

    fn lane(&self) -> Lane {
        match self {
            Message::Group(message) => message.lane(),
            Message::Slingshot(message) => message.lane(),
        }
    }
}
