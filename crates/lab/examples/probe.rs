//! temporary
use paceline_lab::bench::broadcast::*;
use paceline_lab::scenario::units::parse_rate;
use std::time::Duration;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "node" {
        return paceline_lab::serve_control().unwrap();
    }
    let nodes = args[1].parse().unwrap();
    let place =
        if args[2] == "lo" { Place::Loopback } else { Place::Netns(parse_rate(&args[2]).unwrap()) };
    let senders = if args[3] == "one" { BenchSenders::One } else { BenchSenders::All };
    let topology = Some(args[4].parse().unwrap());
    let seconds: f64 = args[5].parse().unwrap();
    // `buffer=BYTES` among the overrides sets the sockets' buffers.
    let (buffers, sets): (Vec<String>, Vec<String>) =
        args[6..].iter().cloned().partition(|set| set.starts_with("buffer="));
    let socket_buffer_bytes = buffers.first().map(|set| set["buffer=".len()..].parse().unwrap());
    let plan = BenchPlan {
        nodes,
        place,
        senders,
        topology,
        message_bytes: 8000,
        duration: Duration::from_secs_f64(seconds),
        socket_buffer_bytes,
        sets,
    };
    let row = run(&plan, &std::env::current_exe().unwrap(), &paceline_lab::Quiet).unwrap();
    println!("{}", serde_json::to_string(&row).unwrap());
}
