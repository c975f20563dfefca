//! Invariants that hold for any trace, on a machine whose times follow a formula.

use ndp_numerics::SplitMix64;
use ndp_systems::serving::{
    Chunk, Iteration, KvMemory, Outcome, Request, Rules, Served, StepCost, StepTimes, Use, serve,
};

/// Times that depend on all of an iteration, and a record of requests.
struct Formula {
    kv: KvMemory,
    asked: Vec<(Vec<Chunk>, Vec<Chunk>)>,
}

impl Formula {
    fn with_tokens(tokens: u64) -> Self {
        Self { kv: KvMemory { bytes: 3 * tokens, bytes_per_token: 3 }, asked: Vec::new() }
    }

    fn ns(prompts: u32, contexts: &[u32]) -> u64 {
        let sum = contexts.iter().map(|&one| u64::from(one)).sum::<u64>();
        100 + 7 * u64::from(prompts) + 50 * contexts.len() as u64 + sum
    }
}

impl StepTimes for Formula {
    fn devices(&self) -> Vec<&'static str> {
        vec!["device"]
    }

    fn kv(&self) -> KvMemory {
        self.kv
    }

    fn step(&mut self, prompts: &[Chunk], tokens: &[Chunk]) -> ndp_files::Result<StepCost> {
        self.asked.push((prompts.to_vec(), tokens.to_vec()));
        let uses = vec![Use { busy_ns: 1.0, macs_ns: 0.0 }];
        let contexts: Vec<u32> = tokens.iter().map(Chunk::context).collect();
        let ns = Self::ns(prompts.iter().map(|one| one.tokens).sum(), &contexts);
        Ok(StepCost { ns, energy: None, uses })
    }
}

fn below(rng: &mut SplitMix64, end: u64) -> u64 {
    rng.next_u64() % end
}

/// Bursts in no order, some requests at the same time.
fn trace(rng: &mut SplitMix64) -> Vec<Request> {
    let (count, span) = (1 + below(rng, 60), 1 + below(rng, 200_000));
    let (inputs, outputs) = (1 + below(rng, 80), 1 + below(rng, 80));
    (0..count)
        .map(|_| Request {
            arrival_ns: below(rng, span) / 1000 * 1000,
            input: 1 + below(rng, inputs) as u32,
            output: 1 + below(rng, outputs) as u32,
        })
        .collect()
}

fn rules(rng: &mut SplitMix64) -> Rules {
    Rules {
        max_batch: 1 + below(rng, 20) as u32,
        block_tokens: 1 + below(rng, 20) as u32,
        max_prefill: 1 + below(rng, 300) as u32,
        prefill_chunk: (below(rng, 2) > 0).then(|| 1 + below(rng, 60) as u32),
    }
}

/// Indices in order of service.
fn order(requests: &[Request]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&place| (requests[place].arrival_ns, place));
    order
}

struct Seen {
    span: (u64, u64),
    prefilled: Vec<Chunk>,
    decoded: Vec<Chunk>,
    blocks: u64,
    done: u64,
}

fn run(requests: &[Request], rules: &Rules, machine: &mut Formula) -> (Outcome, Vec<Seen>) {
    let mut seen = Vec::new();
    let mut keep = |one: &Iteration<'_>| {
        seen.push(Seen {
            span: (one.start_ns, one.end_ns),
            prefilled: one.prefilled.to_vec(),
            decoded: one.decoded.to_vec(),
            blocks: one.blocks,
            done: one.done,
        });
    };
    let outcome = serve(requests, rules, machine, &mut keep).unwrap();
    (outcome, seen)
}

/// Checks the documented rules on the iterations that the scheduler reports.
fn check(requests: &[Request], rules: &Rules, machine: &Formula, outcome: &Outcome, seen: &[Seen]) {
    let order = order(requests);
    let blocks_of = |tokens: u32| u64::from(tokens.div_ceil(rules.block_tokens));
    let total = machine.kv.bytes / (u64::from(rules.block_tokens) * machine.kv.bytes_per_token);
    let mut done = vec![0u32; requests.len()];
    let mut first = vec![None; requests.len()];
    let mut finish = vec![None; requests.len()];
    let mut gave_way = vec![0u32; requests.len()];
    let mut stored = vec![0u32; requests.len()];
    let mut running: Vec<usize> = Vec::new();
    let mut clock = 0;
    let mut before = 0;
    for (one, asked) in seen.iter().zip(&machine.asked) {
        let Seen { span: (start, end), prefilled, decoded, blocks, done: all_done } = one;
        assert!(*start >= clock && end > start, "the clock goes on");
        if *start > clock {
            assert!(running.is_empty(), "waits only if there is nothing to do");
            let waits = |&place: &usize| finish[place].is_none() && requests[place].arrival_ns < *start;
            assert!(!order.iter().any(waits), "waits only for arrivals");
        }
        clock = *end;
        assert_eq!((prefilled, decoded), (&asked.0, &asked.1));
        let chunks: Vec<Chunk> = decoded.iter().chain(prefilled).copied().collect();
        let batch: Vec<usize> = chunks.iter().map(|chunk| chunk.place).collect();
        // Requests that ran before and are missing were preempted; present ones with nothing stored are back.
        let admitted = |place: &usize| !running.contains(place);
        for &place in running.iter().filter(|place| !batch.contains(place)) {
            gave_way[place] += 1;
            stored[place] = 0;
            assert!(!batch.iter().any(admitted), "no request is admitted while another one gives way");
        }
        assert!(!batch.is_empty() && batch.len() <= rules.max_batch as usize);
        let unfinished = order.iter().copied().filter(|&place| finish[place].is_none());
        assert_eq!(batch, unfinished.take(batch.len()).collect::<Vec<_>>(), "first come, first served");
        assert!(batch.iter().all(|&place| requests[place].arrival_ns <= *start));
        let context = |place: usize| requests[place].input + done[place];
        for chunk in &chunks {
            assert_eq!(chunk.history, stored[chunk.place]);
            assert!(chunk.tokens > 0 && chunk.context() <= context(chunk.place));
            assert_eq!(chunk.yields, chunk.context() == context(chunk.place));
        }
        assert!(decoded.iter().all(|chunk| chunk.tokens == 1 && chunk.yields && done[chunk.place] > 0));
        let prompts: u32 = prefilled.iter().map(|chunk| chunk.tokens).sum();
        match rules.prefill_chunk {
            // Only the last prompt may be cut, and only if no tokens are left.
            Some(most) => {
                let cut = prefilled.iter().position(|chunk| !chunk.yields);
                assert!(prompts <= most && cut.is_none_or(|at| at + 1 == prefilled.len() && prompts == most));
            }
            None => {
                assert!(prefilled.iter().all(|chunk| chunk.yields && chunk.history == 0));
                assert!(prefilled.len() == 1 || prompts <= rules.max_prefill);
            }
        }
        // Prompts also have blocks for their first token, unless it is the last one.
        let after = |chunk: &Chunk| (context(chunk.place) + 1).min(requests[chunk.place].most_kv_tokens());
        let of = |chunk: &Chunk| context(chunk.place);
        let needed = prefilled.iter().map(after).chain(decoded.iter().map(of)).map(blocks_of).sum::<u64>();
        assert!(needed == *blocks && *blocks <= total, "{needed} {blocks} {total}");
        for chunk in &chunks {
            let place = chunk.place;
            stored[place] = chunk.context();
            if !chunk.yields {
                continue;
            }
            done[place] += 1;
            first[place].get_or_insert(clock);
            if done[place] == requests[place].output {
                assert!(finish[place].replace(clock).is_none());
            }
        }
        assert!(*all_done >= before);
        before = *all_done;
        running = batch.into_iter().filter(|&place| finish[place].is_none()).collect();
    }
    let all: u32 = requests.iter().map(|request| request.input + request.output).sum();
    assert_eq!(before, u64::from(all));
    assert_eq!(seen.len(), machine.asked.len());
    assert_eq!(outcome.iterations, seen.len() as u64);
    let expected: Vec<Served> = (0..requests.len())
        .map(|place| Served {
            request: requests[place],
            first_ns: first[place].unwrap(),
            finish_ns: finish[place].unwrap(),
            preemptions: gave_way[place],
        })
        .collect();
    assert_eq!(outcome.served, expected);
    assert!(done.iter().zip(requests).all(|(done, request)| *done == request.output));
    assert!(order.is_sorted_by_key(|&place| first[place]), "first tokens come in the order of arrival");
    let tokens: u64 = outcome.tokens.iter().map(|(_, count)| u64::from(*count)).sum();
    assert_eq!(tokens, requests.iter().map(|request| u64::from(request.output)).sum::<u64>());
    assert_eq!(outcome.preemptions, gave_way.iter().map(|&count| u64::from(count)).sum::<u64>());
    let prompts: u64 = requests.iter().map(|request| u64::from(request.input)).sum();
    assert_eq!(outcome.prefilled - outcome.recomputed, prompts);
    assert_eq!(outcome.most_blocks, seen.iter().map(|one| one.blocks).max().unwrap());
}

#[test]
fn every_request_is_served_once_in_order_within_memory_and_twice_the_same() {
    let mut rng = SplitMix64::new(11);
    let (mut preempted, mut full) = (0, 0);
    for _ in 0..3000 {
        let (requests, rules) = (trace(&mut rng), rules(&mut rng));
        // From just enough for the longest to enough for many.
        let block = u64::from(rules.block_tokens);
        let longest = requests.iter().map(|request| u64::from(request.most_kv_tokens())).max().unwrap();
        let tokens = longest.div_ceil(block) * block + below(&mut rng, 400);
        let mut machine = Formula::with_tokens(tokens);
        let (outcome, seen) = run(&requests, &rules, &mut machine);
        check(&requests, &rules, &machine, &outcome, &seen);
        let (again, _) = run(&requests, &rules, &mut Formula::with_tokens(tokens));
        assert_eq!(outcome, again);
        preempted += u64::from(outcome.preemptions > 0);
        full += u64::from(outcome.most_blocks == outcome.blocks);
    }
    assert!(preempted > 500 && full > 500, "{preempted} {full}: the memory has to be scarce often enough");
}

#[test]
fn all_blocks_are_free_at_the_end() {
    // A last request that needs all memory is served after all others, and would lack blocks that they kept.
    let mut rng = SplitMix64::new(12);
    for _ in 0..300 {
        let (mut requests, rules) = (trace(&mut rng), rules(&mut rng));
        let tokens = 200 / rules.block_tokens * rules.block_tokens;
        requests.push(Request { arrival_ns: 1_000_000_000, input: tokens, output: 1 });
        let mut machine = Formula::with_tokens(tokens.into());
        let (outcome, seen) = run(&requests, &rules, &mut machine);
        let last = seen.last().unwrap();
        assert_eq!((last.prefilled.len(), last.blocks), (1, outcome.blocks));
        check(&requests, &rules, &machine, &outcome, &seen);
    }
}

fn naive(requests: &[Request]) -> Vec<Served> {
    let mut served = vec![None; requests.len()];
    let mut clock = 0;
    for place in order(requests) {
        let request = requests[place];
        clock = request.arrival_ns.max(clock) + Formula::ns(request.input, &[]);
        let first_ns = clock;
        for generated in 1..request.output {
            clock += Formula::ns(0, &[request.input + generated]);
        }
        served[place] = Some(Served { request, first_ns, finish_ns: clock, preemptions: 0 });
    }
    served.into_iter().map(Option::unwrap).collect()
}

#[test]
fn a_batch_of_one_is_one_request_at_a_time() {
    let mut rng = SplitMix64::new(13);
    for _ in 0..2000 {
        let requests = trace(&mut rng);
        let rules = Rules { max_batch: 1, prefill_chunk: None, ..rules(&mut rng) };
        let (outcome, _) = run(&requests, &rules, &mut Formula::with_tokens(1000));
        assert_eq!(outcome.served, naive(&requests));
        assert_eq!(outcome.preemptions, 0);
    }
}

#[test]
fn what_can_never_fit_is_refused_before_anything_runs() {
    let requests = [10, 21].map(|output| Request { arrival_ns: 0, input: 20, output });
    let rules = Rules { max_batch: 4, block_tokens: 8, max_prefill: 100, prefill_chunk: None };
    let refused = |tokens, rules: &Rules, requests: &[Request]| {
        let mut machine = Formula::with_tokens(tokens);
        let error = serve(requests, rules, &mut machine, &mut |_| {}).unwrap_err().to_string();
        assert!(machine.asked.is_empty());
        error
    };
    assert_eq!(
        refused(39, &rules, &requests),
        "request 2 (20 tokens in, 21 out) can never be served: its keys and values need 5 blocks of 8 tokens, 120 bytes, and there are 4 blocks, \
         117 bytes"
    );
    assert!(serve(&requests, &rules, &mut Formula::with_tokens(40), &mut |_| {}).is_ok());
    assert_eq!(
        refused(40, &Rules { max_batch: 0, ..rules }, &requests),
        "max batch = 0 must be in 1..=65536"
    );
    assert_eq!(
        refused(40, &Rules { block_tokens: 0, ..rules }, &requests),
        "block = 0 must be in 1..=1048576"
    );
    assert_eq!(
        refused(40, &Rules { prefill_chunk: Some(0), ..rules }, &requests),
        "prefill chunk = 0 must be in 1..=1048576"
    );
    assert_eq!(refused(40, &rules, &[]), "the trace has no requests");
}
