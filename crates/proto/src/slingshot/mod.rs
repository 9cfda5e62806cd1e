//! Multicast in which receivers repair each other: Balakrishnan, Pleisch, Birman, *Slingshot:
//! Time-Critical Multicast for Clustered Applications*, NCA 2005.

pub mod tuner;
