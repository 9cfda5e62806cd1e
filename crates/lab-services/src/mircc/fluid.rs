//! How long flows would take if their shares were always right: an ideal without packets.

use paceline_lab::LabError;

use super::plan::Step;

/// Seconds that each flow takes when those that are there share max-min at each instant. `rates`
/// gives the shares of some flows, bit/s; `bits` is what each has to receive.
pub(super) fn completions(
    steps: &[Step],
    bits: &[f64],
    rates: impl Fn(&[usize]) -> Result<Vec<f64>, LabError>,
) -> Result<Vec<f64>, LabError> {
    let mut left = bits.to_vec();
    let mut took = vec![f64::NAN; steps.len()];
    let mut arrivals: Vec<usize> = (0..steps.len()).collect();
    arrivals.sort_by_key(|&flow| steps[flow].begins);
    let mut arrivals = arrivals.into_iter().peekable();
    let mut active: Vec<usize> = Vec::new();
    let mut now = 0.0;
    loop {
        let next = arrivals.peek().map(|&flow| steps[flow].begins.as_secs_f64());
        if active.is_empty() {
            let Some(begins) = next else { return Ok(took) };
            now = begins;
        }
        while let Some(flow) = arrivals.next_if(|&flow| steps[flow].begins.as_secs_f64() <= now) {
            active.push(flow);
        }
        let shares = rates(&active)?;
        let ends = active.iter().zip(&shares).map(|(&flow, share)| now + left[flow] / share);
        let first_end = ends.fold(f64::INFINITY, f64::min);
        let next = arrivals.peek().map(|&flow| steps[flow].begins.as_secs_f64());
        let until = next.map_or(first_end, |next| next.min(first_end));
        for (&flow, share) in active.iter().zip(&shares) {
            left[flow] -= share * (until - now);
        }
        now = until;
        // What rounding leaves of a flow is nothing.
        let is_over = |flow: usize| left[flow] <= bits[flow] * 1e-9;
        for &flow in active.iter().filter(|&&flow| is_over(flow)) {
            took[flow] = now - steps[flow].begins.as_secs_f64();
        }
        active.retain(|&flow| !is_over(flow));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_short_flow_that_comes_later_shares_and_leaves_the_rest_to_the_long_one() {
        let step = |begins| Step {
            consumer: 0,
            begins: Duration::from_secs(begins),
            stops: None,
            segments: Some(1),
            is_long: false,
        };
        let share = |flows: &[usize]| Ok(vec![10.0 / flows.len() as f64; flows.len()]);
        let took = completions(&[step(0), step(4), step(30)], &[100.0, 10.0, 20.0], share).unwrap();
        // Alone 4 s: 40 bits; shared 2 s: 10 each; alone 5 s: 50.
        assert_eq!(took, [11.0, 2.0, 2.0]);
    }
}
