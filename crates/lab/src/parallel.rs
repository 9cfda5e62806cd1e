//! Several runs at a time.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs jobs, as many at a time as there are threads, and gives their results in the order of the
/// jobs. The costliest are begun first, so that none of them is left to one thread at the end.
pub fn costliest_first<J: Sync, R: Send>(
    jobs: &[J],
    cost: impl Fn(&J) -> u64,
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&at| Reverse(cost(&jobs[at])));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    rayon::scope(|scope| {
        for _ in 0..rayon::current_num_threads() {
            scope.spawn(|_| {
                while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(&jobs[at]);
                    *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    let result = |slot: Mutex<Option<R>>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|slot| result(slot).expect("every job was run")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costliest_begin_first_and_results_keep_the_order_of_jobs() {
        let jobs = [3u64, 1, 9, 9, 4];
        let begun = Mutex::new(Vec::new());
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let run = |job: &u64| {
            begun.lock().unwrap().push(*job);
            job * 10
        };
        let results = one_thread.install(|| costliest_first(&jobs, |&job| job, run));
        assert_eq!(results, [30, 10, 90, 90, 40]);
        assert_eq!(*begun.lock().unwrap(), [9, 9, 4, 3, 1]);
        assert!(costliest_first(&[0u64; 0], |&job| job, |&job| job).is_empty());
    }
}
