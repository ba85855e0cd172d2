#include "cli/job/given_settings.h"

#include <algorithm>

namespace energon::cli {
namespace {

nlohmann::ordered_json value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) {
    return option.count() > 0;
  }
  if (option.count() > 1) {
    return option.results();
  }
  if (option.count() == 1) {
    return option.results().front();
  }
  const std::string standard = option.get_default_str();
  return standard.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(standard);
}

}  // namespace

nlohmann::ordered_json given_settings(const CLI::App& command,
                                      const std::vector<std::string>& except) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  for (const CLI::Option* const option : command.get_options()) {
    const std::string name = option->get_name();
    const std::string last = name.substr(name.rfind(',') + 1);  // of "-h,--help"
    if (std::find(except.begin(), except.end(), last) == except.end()) {
      settings[last] = value_of(*option);
    }
  }
  return settings;
}

}  // namespace energon::cli
