// Address space for the arenas of workers.
//
// An arena reserves a multiple of its limit (energon/process/arena.h), such as 72 GiB for 2 GiB,
// and the loader's process maps the arenas of all its workers. Reservations take no memory, but
// they count against a limit of address space (`ulimit -v`), which many login nodes set.

#pragma once

#include "energon/process/address_space.h"
#include "energon/process/worker_channel.h"

namespace energon {

/// Returns `channel`, the options of each of `workers` channels, with an arena that fits into
/// `space`. Options that fit are kept. Otherwise the workers share half of `space`: at most 3
/// checkpoints of a stream are kept, the arena gets fewer slots of each size and, if that is not
/// enough, a lower limit. The limit is never above the
/// machine's memory. Throws Error (kResourceExhausted), with advice, if not even an arena of 1 MiB
/// fits.
ChannelOptions fit_into(ChannelOptions channel, const AddressSpace& space, int workers);

}  // namespace energon
