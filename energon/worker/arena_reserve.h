// Address space for the arenas of workers.
//
// An arena reserves a multiple of its limit (energon/process/arena.h), 72 GiB for 2 GiB, and the
// loader's process maps those of all its workers. That costs no memory, but counts where a limit of
// address space is set (`ulimit -v`), as on many login nodes.

#pragma once

#include "energon/process/address_space.h"
#include "energon/process/worker_channel.h"

namespace energon {

/// `channel`, one of `workers` such, with an arena that fits: as it is where that is possible; else
/// the workers share half of `space`, first by fewer slots of each size, then by a lower limit. The
/// limit is never above the machine's memory. Throws Error (kResourceExhausted) that says what
/// helps if not even an arena of a megabyte fits.
ChannelOptions fit_into(ChannelOptions channel, const AddressSpace& space, int workers);

}  // namespace energon
