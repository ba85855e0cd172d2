#include "energon/compat/restartable.h"

#include "io/error.h"

namespace energon {

void throw_not_restartable() {
  throw Error(ErrorCode::kUnsupported,
              "the worker objects of this loader are not restartable: they need state_dict(), "
              "load_state_dict(), aggregate_state_dict() and deaggregate_state_dict()");
}

}  // namespace energon
