//! Which neurons are copied to the GPU: the hottest, but of no term more than it needs.

use crate::placement::Instance;

/// How many neurons of each group are on the GPU: the group's hottest ones.
///
/// Groups are taken in order of frequency. Of a group that is more than its term still needs, or than the GPU has room for, as many neurons
/// are taken as are not; so the colder groups behind it fill what is left, ever more finely.
pub(crate) fn select(instance: &Instance) -> Vec<u32> {
    let terms = instance.terms().len();
    // Saturation in whole units of work, rounded down.
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
