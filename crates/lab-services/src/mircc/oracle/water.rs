/// Shares capacities among routes: every rate rises alike until a link on its route is full or its
/// demand is met, and stays there. A route has at least one link.
///
/// Each round settles at least one route, so there are at most as many rounds as routes.
pub(super) fn fill(capacities: &[f64], routes: &[&[usize]], demands: Vec<f64>) -> Vec<f64> {
    let mut rates = vec![0.0; routes.len()];
    let mut left = capacities.to_vec();
    let mut rising: Vec<usize> = (0..routes.len()).collect();
    let mut level = 0.0f64;
    while !rising.is_empty() {
        let mut users = vec![0u32; capacities.len()];
        for &route in &rising {
            routes[route].iter().for_each(|&link| users[link] += 1);
        }
        let share = |link: usize| left[link].max(0.0) / f64::from(users[link]);
        let full_at = |route: usize| {
            let links = routes[route].iter();
            links.map(|&link| share(link)).fold(demands[route], f64::min)
        };
        let next = rising.iter().map(|&route| full_at(route)).fold(f64::INFINITY, f64::min);
        // In exact numbers the level never falls.
        level = level.max(next);
        let (settled, others) = rising.iter().partition(|&&route| full_at(route) <= next);
        rising = others;
        let settled: Vec<usize> = settled;
        for route in settled {
            rates[route] = level.min(demands[route]);
            routes[route].iter().for_each(|&link| left[link] -= rates[route]);
        }
    }
    rates
}
