//! Why a text is no key, certificate or list.

use thiserror::Error;

/// Why a text is not what it should be: nothing was taken from it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// There is no PEM block.
    #[error("it has no PEM block")]
    NoBlock,
    /// A PEM block is cut off, or has characters that do not belong there.
    #[error("its PEM block is damaged")]
    Pem,
    /// The blocks are others, or in another order.
    #[error("its PEM blocks are not: {wanted}")]
    Labels {
        /// The labels that are expected.
        wanted: String,
    },
    /// The bytes of a key are damaged.
    #[error("its key is damaged")]
    Key,
    /// The key is for another algorithm, or known to be weak.
    #[error("its key is not an Ed25519 key")]
    KeyType,
    /// The cipher of a cluster is one that this version does not have.
    #[error("it names a cipher that this version does not have")]
    Suite,
    /// A CA key stands beside the certificate of another key.
    #[error("its certificate is not that of its key")]
    OtherKey,
}
