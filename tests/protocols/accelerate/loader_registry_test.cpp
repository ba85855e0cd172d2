// ACC-19: the stack of loaders being iterated.

#include "protocols/accelerate/loader_registry.h"

#include <memory>

#include <catch2/catch.hpp>

#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/protocols/numbered_batches.h"

using energon::Adapter;
using energon::LoaderRegistry;
using energon::testing::adapt;
using energon::testing::AdapterKind;
using energon::testing::kAdapterKinds;
using energon::testing::numbered_source;
using energon::testing::take;

TEST_CASE("ACC-19 loaders being iterated are on the stack, and none at the end",
          "[distributed][acc]") {
  for (const AdapterKind kind : kAdapterKinds) {
    CAPTURE(kind);
    LoaderRegistry registry;
    const auto outer = adapt(kind, numbered_source(16, 4), registry);
    CHECK(registry.size() == 0);
    {
      const energon::Iteration left_early(*outer);
      take(*outer, 2);
      CHECK(registry.size() == 1);
    }
    CHECK(registry.size() == 0);
    outer->end();
    outer->end();
    take(*outer, 1);
    {
      // A validation within training.
      const auto inner = adapt(kind, numbered_source(8, 4), registry);
      Adapter* const training = registry.innermost();
      take(*inner, 1);
      CHECK(registry.size() == 2);
      CHECK(registry.innermost() != training);
      CHECK_FALSE(registry.innermost()->end_of_dataloader());
      take(*inner);
      CHECK(registry.innermost() == training);
      take(*inner, 1);
      CHECK(registry.size() == 2);
      // Dropped in the middle of its second pass.
    }
    CHECK(registry.size() == 1);
    take(*outer);
    CHECK(registry.size() == 0);
  }
}

TEST_CASE("a registered loader removes itself from anywhere in the stack", "[distributed]") {
  LoaderRegistry registry;
  const auto outer = adapt(AdapterKind::kShard, numbered_source(8, 4), registry);
  take(*outer, 1);
  {
    const auto inner = adapt(AdapterKind::kShard, numbered_source(8, 4), registry);
    take(*inner, 1);
    CHECK(registry.innermost() == inner.get());
    outer->end();
    outer->end();
    CHECK(registry.size() == 1);
    CHECK(registry.innermost() == inner.get());
  }
  CHECK(registry.innermost() == nullptr);
}
