// The native module of the package energon_cpp.

#include "python/src/module.h"

#include <nanobind/nanobind.h>

#include <string_view>

#include "io/dataset/dataset_info.h"
#include "python/src/marked_values.h"
#include "python/src/python_failure.h"

namespace {

// The number in "energon-cpp 0.1.0".
nanobind::str version() {
  const std::string_view writer = energon::writer_version();
  const std::string_view number = writer.substr(writer.rfind(' ') + 1);
  return nanobind::str(number.data(), number.size());
}

}  // namespace

NB_MODULE(_core, module) {
  // Batches and loaders in global variables may outlive the interpreter, which is not an error.
  nanobind::set_leak_warnings(false);
  module.doc() = "The native part of energon_cpp. Private: use the names in the package.";
  module.attr("version") = version();
  energon::python::marks::name();  // drawn before any fork
  energon::python::register_errors();
  energon::python::bind_buffer(module);
  energon::python::bind_tensor(module);
  energon::python::bind_origin(module);
  energon::python::bind_state(module);
  energon::python::bind_part_decoder(module);
  energon::python::bind_stores(module);
  energon::python::bind_cook_call(module);
  energon::python::bind_active_call(module);
  energon::python::bind_av(module);
  energon::python::bind_recipe(module);
  energon::python::bind_prepare(module);
  energon::python::bind_job_state(module);
  energon::python::bind_native_functions(module);
  energon::python::bind_pipeline(module);
  energon::python::bind_loaders(module);
  energon::python::bind_epoch(module);
  energon::python::bind_lookup(module);
  energon::python::bind_energon_import(module);
}
