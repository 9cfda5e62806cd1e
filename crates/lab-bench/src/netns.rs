//! The network lab of a bench: each member in a namespace of its own.

use std::net::SocketAddr;

use paceline_lab::{LabError, Progress};
use paceline_netlab::{NetlabError, NetworkLab, Plan};
use paceline_proto::core::NodeId;

/// The UDP and TCP port of every member: each has an address of its own.
const PORT: u16 = 7946;

/// Builds it.
pub(super) fn build(plan: Plan, progress: &dyn Progress) -> Result<NetworkLab, LabError> {
    let built = NetworkLab::build(plan);
    if progress.stopped() {
        // Ctrl-C reaches the tools that build it as well.
        return Err(LabError::StoppedEarly);
    }
    built.map_err(lab_error)
}

/// Where a member listens.
pub(super) fn bind(lab: &NetworkLab, node: NodeId) -> SocketAddr {
    SocketAddr::from((lab.address(node.index()), PORT))
}

/// What this machine cannot do, or may not, is the caller's to mend; that a tool failed is not.
pub(super) fn lab_error(error: NetlabError) -> LabError {
    match error {
        NetlabError::Failed { .. } | NetlabError::Run { .. } => LabError::Run(error.to_string()),
        other => LabError::Unsupported(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_room_for_a_lab_is_the_callers_to_mend_and_a_broken_tool_is_not() {
        let not_root = NetlabError::NotPermitted { missing: "user id 0".to_owned() };
        let no_tools = NetlabError::MissingTools { tools: vec!["tc"], packages: vec!["iproute2"] };
        for error in [NetlabError::NotLinux, not_root, no_tools] {
            let (said, error) = (error.to_string(), lab_error(error));
            assert_eq!((error.exit_status(), error.to_string()), (2, said));
        }
        let failed = NetlabError::Failed { command: "ip".to_owned(), reason: "why".to_owned() };
        assert_eq!(lab_error(failed).exit_status(), 1);
    }
}
