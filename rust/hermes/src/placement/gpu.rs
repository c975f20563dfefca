//! Neurons to copy to the GPU: the hottest, but of no term more than it needs.

use crate::placement::Instance;

/// Number of neurons of each group on the GPU, hottest first.
///
/// Takes groups by frequency. If a group is more than its term needs, or than fits, colder groups fill the rest ever
/// more finely.
pub(crate) fn select(instance: &Instance) -> Vec<u32> {
    let terms = instance.terms().len();
    // Rounded down to whole units of work.
    let mut room: Vec<u64> = (0..terms).map(|term| instance.saturation(term) as u64).collect();
    let mut free = instance.machine().gpu_bytes;
    let mut taken = vec![0; instance.groups().len()];
    for index in instance.hottest() {
        let (group, term) = (&instance.groups()[index], instance.term_of(index));
        if group.work == 0 {
            break;
        }
        let (len, work) = match group.work <= room[term] && group.bytes <= free {
            true => (group.len, group.work),
            false => {
                instance.leading(group.block as usize, group.start..group.start + group.len, room[term], free)
            }
        };
        taken[index] = len;
        room[term] -= work;
        free -= u64::from(len) * instance.blocks()[group.block as usize].neuron_bytes;
    }
    taken
}
