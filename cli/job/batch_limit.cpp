#include "cli/job/batch_limit.h"

#include "cli/job/at_least.h"

namespace energon::cli {

void add_limit(CLI::App& command, std::optional<std::int64_t>& limit, std::int64_t least,
               const std::string& help) {
  command.add_option("--limit", limit, help)->check(at_least(least));
}

}  // namespace energon::cli
