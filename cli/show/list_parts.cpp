#include "cli/show/list_parts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "wrappers/batching/batch.h"

namespace energon::cli {
namespace {

bool has_names_of(const Sample& sample, const Sample& other) {
  return std::equal(sample.fields.begin(), sample.fields.end(), other.fields.begin(),
                    other.fields.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first; });
}

bool has_field(const Sample& sample, const std::string& name) {
  return std::any_of(sample.fields.begin(), sample.fields.end(),
                     [&](const auto& field) { return field.first == name; });
}

}  // namespace

Mapping list_parts(std::span<Sample> samples) {
  const bool are_alike = std::all_of(samples.begin(), samples.end(), [&](const Sample& sample) {
    return has_names_of(sample, samples.front());
  });
  if (!are_alike) {
    std::vector<std::string> names;
    for (const Sample& sample : samples) {
      for (const auto& [name, value] : sample.fields) {
        if (std::find(names.begin(), names.end(), name) == names.end()) {
          names.push_back(name);
        }
      }
    }
    for (Sample& sample : samples) {
      for (const std::string& name : names) {
        if (!has_field(sample, name)) {
          sample.fields.emplace_back(name, List());
        }
      }
    }
  }
  return list_fields(samples);
}

}  // namespace energon::cli
