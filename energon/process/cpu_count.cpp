#include "energon/process/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace energon {

int usable_cpus() {
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    return std::max(CPU_COUNT(&cpus), 1);
  }
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);  // above 1,024 cores
}

}  // namespace energon
