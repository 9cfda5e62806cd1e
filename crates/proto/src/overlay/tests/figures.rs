//! Hops of a thousand nodes, and bytes of a million.

use super::*;

for_each_router!(hops_of_a_thousand_are_as_expected);

fn hops_of_a_thousand_are_as_expected<R: Checked>() {
    let mut total = 0;
    const NETS: u64 = 4;
    const KEYS: usize = 5000;
    for seed in 0..NETS {
        let mut net = Net::<R>::ideal(seed, 1000);
        let oracle = net.oracle();
        for _ in 0..KEYS {
            let (key, node) = (net.key(), net.any());
            total += net.check_route(&oracle, node, key);
        }
    }
    let mean = total as f64 / (NETS as f64 * KEYS as f64);
    let (expected, margin) = match R::ALGORITHM {
        Algorithm::Chord => (5.3, 0.4),
        Algorithm::Koorde => (12.7, 1.5),
        Algorithm::Pastry | Algorithm::Tapestry => (2.55, 0.15),
        _ => (1.93, 0.15),
    };
    println!("{}: {mean:.3} hops", R::ALGORITHM);
    assert!((mean - expected).abs() <= margin, "{}: {mean:.3} hops", R::ALGORITHM);
}

#[test]
#[ignore = "prints the memory of a million ideal tables; takes minutes"]
fn bytes_of_a_million_tables() {
    fn measure<R: Checked>(ring: &[(Key, NodeId)], space: Space) {
        let mut heap = 0;
        let tables: Vec<R> = ring
            .iter()
            .map(|&(_, node)| {
                let mut router = R::new(space, node, Shape::default());
                router.fill(ring);
                heap += router.heap_bytes();
                router
            })
            .collect();
        let heap = heap as f64 / tables.len() as f64;
        println!("{}: {} B in place, {heap:.0} B on the heap", R::ALGORITHM, size_of::<R>());
    }
    let space = Space::new(1);
    let oracle = Oracle::new(space, (0..1_000_000).map(NodeId));
    measure::<Chord>(oracle.ring(), space);
    measure::<Koorde>(oracle.ring(), space);
    measure::<Pastry>(oracle.ring(), space);
    measure::<Tapestry>(oracle.ring(), space);
    measure::<Kademlia>(oracle.ring(), space);
}
