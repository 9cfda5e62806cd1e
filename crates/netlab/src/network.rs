use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::faults::Faults;
use super::sweep::{self, Owner};
use super::{NetlabError, Plan, Port, tool};

/// Labs built by this process so far: each gets names of its own.
static LABS: AtomicUsize = AtomicUsize::new(0);

/// A network of namespaces on one bridge. Dropping it removes it.
///
/// Node `i` has the address `10.77.0.(i + 1)` on the device `e0`; its port on the switch is `p<i>`.
/// The node's end of a link shapes what the node sends, the switch's end what it receives. Streams
/// use the congestion control `cubic`.
///
/// Multicast reaches every node, whether it has joined or not, as on a switch without IGMP snooping
/// (`mcast_snooping 0`): with snooping the bridge needs a querier, or it forgets who has joined.
/// Each node has a route for all groups through `e0`.
#[derive(Debug)]
pub struct NetworkLab {
    plan: Plan,
    prefix: String,
    pub(super) faults: Faults,
}

impl NetworkLab {
    /// Builds the network, after removing what processes now dead left behind.
    ///
    /// Takes about 15 ms a node. On an error nothing is left.
    pub fn build(plan: Plan) -> Result<NetworkLab, NetlabError> {
        plan.check()?;
        tool::available()?;
        sweep::sweep()?;
        let prefix = Owner::this_process().prefix(LABS.fetch_add(1, Ordering::Relaxed));
        // From here on the drop of `lab` removes what was built.
        let lab = NetworkLab { plan, prefix, faults: Faults::default() };
        lab.add_switch()?;
        for node in 0..lab.nodes() {
            lab.add_node(node)?;
        }
        Ok(lab)
    }

    fn add_switch(&self) -> Result<(), NetlabError> {
        let switch = self.switch();
        tool::run("ip", &["netns", "add", &switch])?;
        tool::run_with_input(
            "ip",
            &["-n", &switch, "-batch", "-"],
            "link add br0 type bridge mcast_snooping 0\nlink set br0 up\n",
        )?;
        Ok(())
    }

    fn add_node(&self, node: usize) -> Result<(), NetlabError> {
        let (switch, namespace) = (self.switch(), self.namespace(node));
        tool::run("ip", &["netns", "add", &namespace])?;
        let port = format!(
            "link add p{node} type veth peer name e0 netns {namespace}\n\
             link set p{node} master br0 up\n"
        );
        tool::run_with_input("ip", &["-n", &switch, "-batch", "-"], &port)?;
        let address = self.address(node);
        // The kernel's default, and not this machine's setting, so that figures do not depend on
        // it.
        let device = format!(
            "addr add {address}/24 dev e0 noprefixroute\n\
             link set e0 address {}\nlink set e0 up\nlink set lo up\n\
             route add 10.77.0.0/24 dev e0 src {address} congctl cubic\n\
             route add 224.0.0.0/4 dev e0\n",
            hardware_address(node),
        );
        // All namespaces share one neighbour table, of 1,024 entries by default: too few for 33
        // nodes that all talk to each other.
        let device =
            (0..self.nodes()).filter(|&other| other != node).fold(device, |lines, other| {
                let (address, hardware) = (self.address(other), hardware_address(other));
                lines + &format!("neigh add {address} lladdr {hardware} dev e0 nud permanent\n")
            });
        tool::run_with_input("ip", &["-n", &namespace, "-batch", "-"], &device)?;
        let port = self.plan.port(node);
        shape(&switch, &format!("p{node}"), port)?;
        shape(&namespace, "e0", port)
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.plan.nodes
    }

    /// What was built.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The address of a node. The prefix length is 24.
    pub fn address(&self, node: usize) -> Ipv4Addr {
        let last = u8::try_from(node + 1).expect("the plan bounds the nodes at 200");
        Ipv4Addr::new(10, 77, 0, last)
    }

    /// The name of a node's namespace, for `ip netns exec`.
    pub fn namespace(&self, node: usize) -> String {
        format!("{}n{node}", self.prefix)
    }

    /// The name of the namespace that holds the bridge.
    pub fn switch(&self) -> String {
        format!("{}sw", self.prefix)
    }

    /// Makes a command run inside a node. Takes over program, arguments, environment and working
    /// directory; the caller must set redirections on the result.
    pub fn command_in(&self, node: usize, command: Command) -> Command {
        let mut inside = tool::command("ip");
        inside
            .args(["netns", "exec", &self.namespace(node)])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside
    }

    pub(super) fn check_node(&self, node: usize) -> Result<(), NetlabError> {
        if node < self.nodes() {
            return Ok(());
        }
        Err(NetlabError::NoSuchNode { node, last: self.nodes() - 1 })
    }
}

/// The hardware address of a node's device.
fn hardware_address(node: usize) -> String {
    format!("02:00:0a:4d:00:{:02x}", node + 1)
}

fn shape(namespace: &str, device: &str, port: Port) -> Result<(), NetlabError> {
    let Port { rate_bits_per_second, burst_bytes, queue_bytes_max } = port;
    let mut line = format!("qdisc add dev {device} root tbf rate {rate_bits_per_second}bit ");
    let _ = writeln!(line, "burst {burst_bytes}b limit {queue_bytes_max}b");
    tool::run_with_input("tc", &["-n", namespace, "-batch", "-"], &line)?;
    Ok(())
}

impl Drop for NetworkLab {
    fn drop(&mut self) {
        // `drop` cannot return an error; the next build removes the rest.
        let _ = sweep::remove(&sweep::namespaces(&self.prefix));
    }
}
