//! Named data at a fair rate: files under names, fetched over one path or several.
//!
//! A [`Forwarder`] is a UDP socket with faces (the addresses of its neighbours) and routes (which
//! face leads to names with which prefix). It speaks NDN, so other programs that do are neighbours
//! like any. Each face whose rate is known stamps what a flow may send on the Data that passes, and
//! consumers go exactly so fast: [`crate::proto::mircc`].
//!
//! [`Forwarder::serve`] publishes the files of a folder, [`Forwarder::fetch`] gets one,
//! [`Forwarder::ping`] and [`Forwarder::trace`] look at the paths. Any forwarder does all of these;
//! one that does none of them passes on what others ask.
//!
//! # Names
//! The file `notes/today.txt` of a folder served under `/p` is
//! `/p/notes/today.txt/v=VERSION/seg=NUMBER`. The version is the time of the last change,
//! nanoseconds since 1970. An Interest for `/p/notes/today.txt` that takes longer names is answered
//! with the first segment of the present version; one for `/p/notes/today.txt/32=metadata` with the
//! name of the version, the sizes and the digest of the file. Source: Realtime Data Retrieval, and
//! the metadata of ndn6-file-server.
//!
//! # Trust
//! Data is signed with its digest, which tells damage from what was sent and nothing more, or with
//! an Ed25519 key that the consumer knows. Nothing is encrypted, and what forwarders say of rates
//! and paths is not signed at all. So a forwarder listens on loopback only, unless
//! [`ForwarderBuilder::insecure_plaintext`] says otherwise. Beyond loopback it answers strangers
//! with at most three times what they sent, unless [`ForwarderBuilder::faces_allowed`] names their
//! range: their addresses may be forged.

mod builder;
mod control;
mod desk;
mod error;
pub mod fetch;
mod forwarder;
mod metadata;
mod probe;
mod register;
mod rib;
pub mod serve;

pub use builder::ForwarderBuilder;
pub use error::{AskError, ForwarderError, RegisterError};
pub use fetch::{Fetch, FetchError, Fetched, Fetching, Progress, Undecoded, UndecodedFrom, Whole};
pub use forwarder::{Answer, Forwarder, Report};
pub use metadata::{Digest, FileMetadata, MetadataError};
pub use probe::{Hop, Reply};
pub use register::Registration;
pub use serve::{Serve, ServeCounts, ServeError, Serving};

pub use paceline_net::{AddressRange, RangeError};
pub use paceline_proto::mircc::{
    Config, ConfigError, Controller, ControllerConfig, FaceConfig, FaceCounts, FaceReport,
    FlowCounts, FlowReport, Multipath, Pace, PathReport, Question, Strategy, Undecodable,
};
pub use paceline_proto::ndn::{
    Data, Interest, KeyError, NackReason, Name, NameError, PathLabel, Signer, Stamps, Trust,
    VerifyError,
};
