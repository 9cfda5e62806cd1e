use super::*;

const C: f64 = 10e9;

fn config(algorithm: Algorithm, headroom: f64) -> ControllerConfig {
    ControllerConfig { algorithm, headroom, ..ControllerConfig::default() }
}

fn seen(primary: f64) -> Interval {
    Interval {
        length: Duration::from_millis(28),
        primary_bits_per_second: primary,
        round_trip: Duration::from_millis(28),
        data_bits: 8_800.0,
        ..Interval::default()
    }
}

/// The rate on which flows settle that would like to send so much each.
fn settled(algorithm: Algorithm, headroom: f64, demands: &[f64]) -> f64 {
    let mut controller = Controller::new(&config(algorithm, headroom), C);
    for _ in 0..400 {
        let rate = controller.primary_bits_per_second();
        controller.update(&seen(demands.iter().map(|demand| demand.min(rate)).sum()));
    }
    controller.primary_bits_per_second()
}

#[test]
fn flows_share_what_those_limited_elsewhere_leave() {
    for (headroom, equal, left) in [(1.0, 2.5e9, 7.0e9), (0.95, 2.375e9, 6.5e9)] {
        for algorithm in [Algorithm::Mircc, Algorithm::Rcp] {
            let four = settled(algorithm, headroom, &[C; 4]);
            assert!((four / equal - 1.0).abs() < 0.001, "{algorithm:?} {four}");
            let one = settled(algorithm, headroom, &[C, 1e9, 1e9, 1e9]);
            assert!((one / left - 1.0).abs() < 0.001, "{algorithm:?} {one}");
            assert_eq!(settled(algorithm, headroom, &[]), headroom * C);
            assert_eq!(settled(algorithm, headroom, &[8_800.0; 100]), headroom * C);
        }
    }
}

#[test]
fn one_more_flow_is_told_an_equal_share_or_what_others_leave() {
    let joins = |algorithm, demands: &[f64]| {
        let mut controller = Controller::new(&config(algorithm, 0.95), C);
        for _ in 0..400 {
            let rate = controller.primary_bits_per_second();
            controller.update(&seen(demands.iter().map(|demand| demand.min(rate)).sum()));
        }
        controller.join_bits_per_second()
    };
    let target = 0.95 * C;
    for algorithm in [Algorithm::Mircc, Algorithm::Rcp] {
        for flows in 0..6 {
            let share = target / (flows + 1) as f64;
            let join = joins(algorithm, &vec![C; flows]);
            assert!((join / share - 1.0).abs() < 0.001, "{algorithm:?} {flows}: {join}");
        }
        // Three that are limited elsewhere leave more than a fourth.
        let join = joins(algorithm, &[1e9; 3]);
        assert!((join / (target - 3e9) - 1.0).abs() < 0.001, "{algorithm:?} {join}");
        // One that is not shares what they leave: 3.25e9, of which aggregates see 3.86e9.
        let join = joins(algorithm, &[C, 1e9, 1e9, 1e9]);
        assert!((3.2e9..4e9).contains(&join), "{algorithm:?} {join}");
        assert_eq!(Controller::new(&config(algorithm, 0.95), C).join_bits_per_second(), target);
    }
}

#[test]
fn an_overload_without_a_queue_is_mended_in_one_interval() {
    let mut mircc = Mircc::new(&config(Algorithm::Mircc, 0.95), C);
    mircc.update(&seen(3.8e10));
    assert!((mircc.primary_bits_per_second() / 2.375e9 - 1.0).abs() < 1e-9);
}

#[test]
fn the_secondary_class_gets_what_the_primary_leaves_of_the_target() {
    let mut mircc = Mircc::new(&config(Algorithm::Mircc, 0.95), 15e6);
    for _ in 0..200 {
        let secondary = mircc.secondary_bits_per_second().unwrap();
        mircc.update(&Interval { secondary_bits_per_second: secondary, ..seen(11.4e6) });
    }
    let secondary = mircc.secondary_bits_per_second().unwrap();
    assert!((secondary / 2.85e6 - 1.0).abs() < 0.001, "{secondary}");
    for _ in 0..200 {
        let secondary = mircc.secondary_bits_per_second().unwrap();
        mircc.update(&Interval { secondary_bits_per_second: secondary, ..seen(14.25e6) });
    }
    assert!(mircc.secondary_bits_per_second().unwrap() <= 0.0011 * 15e6);
}

#[test]
fn a_rate_is_finite_and_within_its_limits_whatever_was_seen() {
    let values = [0.0, 1.0, 1e3, 1e6, 1e12, 1e18, f64::MAX];
    for algorithm in [Algorithm::Mircc, Algorithm::Rcp] {
        for (arrivals, queue) in values.iter().flat_map(|a| values.map(|q| (*a, q))) {
            for round_trip in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(4)] {
                let mut controller = Controller::new(&config(algorithm, 0.95), C);
                for _ in 0..3 {
                    controller.update(&Interval {
                        primary_queue_bits: queue,
                        round_trip,
                        ..seen(arrivals)
                    });
                    let rate = controller.primary_bits_per_second();
                    assert!(rate > 0.0 && rate <= 0.95 * C, "{algorithm:?} {rate}");
                    let join = controller.join_bits_per_second();
                    assert!(join > 0.0 && join <= 0.95 * C, "{algorithm:?} {join}");
                }
            }
        }
    }
}

#[test]
fn nothing_that_arrives_lets_a_rate_come_to_rest() {
    let mut controller = Controller::new(&config(Algorithm::Mircc, 0.95), C);
    controller.update(&seen(4.0 * C));
    assert!(!controller.is_at_rest());
    for _ in 0..30 {
        controller.update(&seen(0.0));
    }
    assert!(controller.is_at_rest());
}
