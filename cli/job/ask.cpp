#include "cli/job/ask.h"

#include <iostream>

#include "cli/show/output.h"
#include "io/error.h"

namespace energon::cli {

std::string ask(const std::string& question) {
  output().flush();
  std::cerr << question << std::flush;
  std::string answer;
  if (!std::getline(std::cin, answer)) {
    throw Error(ErrorCode::kCancelled, "no answer; nothing was prepared");
  }
  return answer;
}

}  // namespace energon::cli
