// What a build without emitters has in their place (tools/strata/core), compiled into this test.
#include <gmock/gmock.h>

#include "../../tools/strata/commands.h"
#include "../../tools/strata/emitters.h"

namespace strata::cli {
namespace {

using testing::HasSubstr;

/// What a command line comes to.
Result<int> run(const std::string& line) {
  CLI::App app("", "strata");
  Action action;
  add_emit(app, action);
  add_decode(app, action);
  app.parse(line);
  return action();
}

template <class Value>
void expect_missing(const Result<Value>& result) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(result.error().message, HasSubstr("this build has no emitters"));
  EXPECT_THAT(result.error().remedy, HasSubstr("cmake -DSTRATA_EMITTERS=ON"));
}

TEST(WithoutEmitters, CommandsSayThatTheyAreMissingWhateverTheyAreGiven) {
  expect_missing(run("emit"));
  expect_missing(run("emit module.hlo --emit=ptx --output out"));
  expect_missing(run("decode --config model.json --prompt-ids 3,17 --tokens 2"));
  EXPECT_THAT(run("decode").error().message, HasSubstr("decoding"));
  EXPECT_THAT(run("emit").error().message, HasSubstr("kernels of HLO modules"));
}

TEST(WithoutEmitters, CommandsHaveHelp) {
  CLI::App app("", "strata");
  Action action;
  add_emit(app, action);
  EXPECT_THROW(app.parse("emit --help"), CLI::CallForHelp);
  EXPECT_THAT(app.help(), HasSubstr("Not in this build: generating kernels of HLO modules"));
}

TEST(WithoutEmitters, ModulesAndFoldersAreRefused) {
  const Source source{"module.hlo", "HloModule m", true};
  expect_missing(canonical_module(source));
  expect_missing(run_module(source, {}));
  expect_missing(run_folder("folder", {}));
}

TEST(WithoutEmitters, CodeGenerationHasNobodyToAsk) { EXPECT_EQ(kernel_emitter(), nullptr); }

TEST(WithoutEmitters, DoctorSaysWhatToDo) {
  const std::string said = describe({emitters_finding()});
  EXPECT_THAT(said, HasSubstr("emitters   missing"));
  EXPECT_THAT(said, HasSubstr("cmake -DSTRATA_EMITTERS=ON"));
}

}  // namespace
}  // namespace strata::cli
