// What a cook function of Python may ask for: files of its own dataset and of auxiliary datasets.

#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "energon/sample/sample.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/stages/cook.h"

namespace energon::python {

/// Paths of the stores of a leaf.
struct StorePaths {
  std::string primary;
  std::map<std::string, std::string> aux;  ///< by the name of the auxiliary dataset
};
/// One for each leaf.
std::vector<StorePaths> store_paths_of(const std::vector<PipelineLeaf>& leaves);

/// One call. The Python object may live longer: it then throws Error.
class CookCall {
 public:
  /// Borrows both until end().
  CookCall(CookContext& context, const StorePaths& paths);
  ~CookCall() { end(); }
  CookCall(const CookCall&) = delete;
  CookCall& operator=(const CookCall&) = delete;

  /// The Python object. Requires: the GIL.
  nanobind::object object() const;
  /// The sources of the files that the function has read. Ends the call.
  std::vector<SampleSource> end();

 private:
  std::shared_ptr<class CookFiles> files_;
};

void bind_cook_call(nanobind::module_& module);

}  // namespace energon::python
