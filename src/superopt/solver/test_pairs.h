// Pairs of programs for the tests of this folder: identities and near misses.
#pragma once

#include <string>

#include "superopt/verify/test_graphs.h"

namespace strata {

/// Two programs over the same inputs; statements are separated by semicolons.
struct Pair {
  const char* name;
  const char* inputs;
  const char* reference;
  const char* candidate;
};

inline std::string inputs_of(const std::string& letters) {
  std::string text;
  for (const char c : letters) text += fmt::format("input {}: f32[3];", c);
  return text;
}

inline std::string expanded(const std::string& inputs) {
  return inputs.find(':') == std::string::npos ? inputs_of(inputs) : inputs;
}

inline constexpr const char* kMatrices = "input X: f32[8, 16];input W: f32[16, 32];input V: f32[16, 32];";

inline const Pair kEquivalent[] = {
    {"ReluIsHomogeneous", "x", "a = relu(x);b = scale(a, factor=2);output b",
     "a = scale(x, factor=2);b = relu(a);output b"},
    {"ReluOfBothSigns", "x", "m = scale(x, factor=-1);a = relu(x);b = relu(m);c = sub(a, b);output c",
     "c = scale(x, factor=1);output c"},
    {"ReluIsIdempotent", "x", "a = relu(x);output a", "a = relu(x);b = relu(a);output b"},
    {"ReluIsAMaximum", "xz", "z0 = sub(z, z);a = max(x, z0);output a", "a = relu(x);output a"},
    {"ReluOfANegative", "x", "a = scale(x, factor=-3);b = relu(a);output b",
     "a = relu(x);b = sub(a, x);c = scale(b, factor=3);output c"},
    {"MaximumTranslates", "abc", "m = max(a, b);s = add(m, c);output s",
     "s = add(a, c);t = add(b, c);m = max(s, t);output m"},
    {"MaximumAndMinimum", "ab", "s = add(a, b);output s",
     "m = max(a, b);n = scale(a, factor=-1);o = scale(b, factor=-1);p = max(n, o);q = sub(m, p);output q"},
    {"MaximumByRelu", "ab", "m = max(a, b);output m", "d = sub(a, b);r = relu(d);m = add(b, r);output m"},
    {"MaximumIsAssociative", "abc", "m = max(a, b);n = max(m, c);output n", "m = max(b, c);n = max(a, m);output n"},
    {"MaximumOfSquares", "ab", "x = sqr(a);z = relu(x);output z", "z = mul(a, a);output z"},
    {"ChoiceIsMaximum", "ab", "m = max(a, b);output m", "g = greater(a, b);m = select(g, a, b);output m"},
    {"ChoiceReversed", "abc", "g = greater(a, b);m = select(g, b, a);output m",
     "m = max(a, b);s = add(a, b);n = sub(s, m);output n"},
    {"StepTimesX", "x", "z = sub(x, x);g = greater(x, z);r = mul(x, g);output r", "r = relu(x);output r"},
    {"StepIsHomogeneous", "ab", "g = greater(a, b);output g",
     "x = scale(a, factor=3);y = scale(b, factor=3);g = greater(x, y);output g"},
    {"StepOfRelu", "x", "z = sub(x, x);g = greater(x, z);output g",
     "z = sub(x, x);r = relu(x);g = greater(r, z);output g"},
    {"StepIsIdempotent", "ab", "g = greater(a, b);output g", "g = greater(a, b);h = sqr(g);output h"},
    {"StepsExcludeEachOther", "ab", "z = sub(a, a);output z",
     "g = greater(a, b);h = greater(b, a);z = mul(g, h);output z"},
    {"AbsoluteSquared", "x", "s = sqr(x);output s", "n = scale(x, factor=-1);m = max(x, n);s = sqr(m);output s"},
    {"RootOfSquare", "x", "n = scale(x, factor=-1);m = max(x, n);output m", "s = sqr(x);m = sqrt(s);output m"},
    {"ChoiceOfProducts", "abcd", "g = greater(a, b);u = mul(c, d);v = add(c, d);s = select(g, u, v);output s",
     "g = greater(a, b);h = greater(a, b);n = scale(h, factor=-1);u = mul(c, d);v = add(c, d);p = mul(g, u);"
     "q = mul(n, v);r = add(q, v);s = add(p, r);output s"},
    {"GeluOfSum", "ab", "s = add(a, b);g = gelu(s);output g", "s = add(b, a);g = gelu(s);output g"},
    {"SiluByExp", "x", "s = silu(x);output s",
     "e = exp(x);n = scale(x, factor=-1);m = exp(n);u = mul(e, m);d = add(u, e);p = mul(x, e);s = div(p, d);output s"},
    {"ExpOfMaximum", "ab", "x = exp(a);y = exp(b);m = max(x, y);p = mul(m, m);output p",
     "x = exp(a);y = exp(b);p = mul(x, x);q = mul(y, y);m = max(p, q);output m"},
    {"TwoExponentials", "x", "e = exp(x);f = exp(e);g = sqr(f);output g",
     "e = exp(x);s = scale(e, factor=2);g = exp(s);output g"},
    {"Softmax", "input x: f32[4, 8];", "e = exp(x);s = sum(e, dim=1);o = div(e, s);output o",
     "m = reduce_max(x, dim=1);y = sub(x, m);e = exp(y);s = sum(e, dim=1);o = div(e, s);output o"},
    {"AttentionInOnePass", "input x: f32[4, 8];input V: f32[8, 4];",
     "e = exp(x);s = sum(e, dim=1);p = div(e, s);o = matmul(p, V);output o",
     "m = reduce_max(x, dim=1);y = sub(x, m);e = exp(y);s = sum(e, dim=1);p = matmul(e, V);o = div(p, s);output o"},
    {"ReluDistributes", kMatrices, "r = relu(X);a = matmul(r, W);b = matmul(r, V);c = add(a, b);output c",
     "r = relu(X);u = add(W, V);c = matmul(r, u);output c"},
    {"OnlineSoftmax", "input Q: f32[4, 4];input K: f32[4, 16];input V: f32[16, 4];",
     "s = matmul(Q, K);m = reduce_max(s, dim=1);d = sub(s, m);e = exp(d);l = sum(e, dim=1);p = div(e, l);"
     "O = matmul(p, V);output O",
     "O = block(Q, K, V, grid=[2], loop=4) {;q = in_iter(Q, imap=[0]);k = in_iter(K, imap=[_], fmap=1);"
     "v = in_iter(V, imap=[_], fmap=0);s = matmul(q, k);m = reduce_max(s, dim=1);d = sub(s, m);e = exp(d);"
     "p = matmul(e, v);n = accum_rescale(p, m);l = sum(e, dim=1);t = accum_rescale(l, m);o = div(n, t);"
     "O = out_saver(o, omap=[0]);};output O"},
    {"GroupedMaximum", "input x: f32[4, 8];", "m = reduce_max(x, dim=1);output m",
     "g = reduce_max(x, dim=1, every=2);m = reduce_max(g, dim=1);output m"},
    {"ReluBeforeMaximum", "input x: f32[4, 8];", "m = reduce_max(x, dim=1);r = relu(m);output r",
     "r = relu(x);m = reduce_max(r, dim=1);output m"},
    {"ReluMatmulTiled", kMatrices, "r = relu(X);Y = matmul(r, W);output Y",
     "Y = block(X, W, grid=[4], loop=2) {;x = in_iter(X, imap=[_], fmap=1);w = in_iter(W, imap=[1], fmap=0);"
     "r = relu(x);p = matmul(r, w);s = accum(p, kind=sum);Y = out_saver(s, omap=[1]);};output Y"},
    {"GeluFused", kMatrices, "p = matmul(X, W);Y = gelu(p);output Y",
     "Y = block(X, W, grid=[4], loop=2) {;x = in_iter(X, imap=[_], fmap=1);w = in_iter(W, imap=[1], fmap=0);"
     "p = matmul(x, w);s = accum(p, kind=sum);g = gelu(s);Y = out_saver(g, omap=[1]);};output Y"},
    {"MaximumAccumulated", "input x: f32[4, 8];", "m = reduce_max(x, dim=1);output m",
     "m = block(x, grid=[2], loop=4) {;t = in_iter(x, imap=[0], fmap=1);r = reduce_max(t, dim=1);"
     "a = accum(r, kind=max);m = out_saver(a, omap=[0]);};output m"},
    {"MlpFused", kMatrices, "p = matmul(X, W);q = matmul(X, V);r = relu(p);Y = mul(r, q);output Y",
     "Y = block(X, W, V, grid=[2], loop=4) {;x = in_iter(X, imap=[_], fmap=1);w = in_iter(W, imap=[1], fmap=0);"
     "v = in_iter(V, imap=[1], fmap=0);p = matmul(x, w);q = matmul(x, v);a = accum(p, kind=sum);"
     "b = accum(q, kind=sum);r = relu(a);y = mul(r, b);Y = out_saver(y, omap=[1]);};output Y"},
    {"ReluConvolution", "input X: f32[1, 2, 4, 4];input W: f32[2, 2, 3, 3];input V: f32[2, 2, 3, 3];",
     "r = relu(X);a = conv2d(r, W, padding=1);b = conv2d(r, V, padding=1);c = add(a, b);output c",
     "r = relu(X);u = add(W, V);c = conv2d(r, u, padding=1);output c"},
    {"NormThenRelu", "input x: f32[4, 8];",
     "s = sqr(x);m = sum(s, dim=1);r = sqrt(m);d = div(x, r);y = relu(d);output y",
     "a = relu(x);s = sqr(x);m = sum(s, dim=1);r = sqrt(m);y = div(a, r);output y"},
    {"RoundingDecidesSteps", "xy", "z = sub(x, x);s = mul(y, z);output s",
     "t = scale(x, factor=1/3);u = scale(t, factor=3);g = greater(u, x);h = greater(x, u);d = add(g, h);s = mul(y, d);"
     "output s"},
    {"OverflowOfOne", "x", "z = sub(x, x);e = exp(z);s = mul(e, x);output s",
     "y = scale(x, factor=900);m = scale(x, factor=-900);e = exp(y);f = exp(m);g = mul(e, f);s = mul(g, x);output s"},
    {"ConstantsTooLargeForTheField", "x",
     "a = scale(x, factor=123456789/1000003);b = scale(a, factor=7654321/999983);"
     "output b",
     "a = scale(x, factor=7654321/999983);b = scale(a, factor=123456789/1000003);output b"},
    {"RoundingOfZero", "xy", "z = sub(x, x);output z",
     "t = scale(x, factor=1/3);u = scale(t, factor=3);p = mul(u, y);q = mul(x, y);z = sub(p, q);output z"},
    // Beyond the normal form: Z3.
    {"SignOfAProduct", "ab", "z = sub(a, a);p = mul(a, b);g = greater(p, z);output g",
     "z = sub(a, a);g = greater(a, z);h = greater(b, z);m = greater(z, a);n = greater(z, b);p = mul(g, h);q = mul(m, "
     "n);"
     "s = add(p, q);output s"},
    {"MaximumOfMean", "ab", "m = max(a, b);output m",
     "s = add(a, b);h = scale(s, factor=1/2);m = max(a, b);n = max(m, h);output n"},
    {"RootsMultiply", "ab", "r = sqrt(a);s = sqrt(b);p = mul(r, s);output p", "p = mul(a, b);r = sqrt(p);output r"},
    {"ChoiceBySteps", "abc", "g = greater(a, b);h = greater(b, c);p = mul(g, h);s = select(p, a, c);output s",
     "g = greater(a, b);h = greater(b, c);k = greater(a, c);p = mul(g, h);q = mul(p, k);s = select(q, a, c);output s"},
};

inline const Pair kDifferent[] = {
    {"ReluOfNegativeFactor", "x", "a = scale(x, factor=-2);b = relu(a);output b",
     "a = relu(x);b = scale(a, factor=-2);output b"},
    {"ReluIsNotLinear", "ab", "s = add(a, b);r = relu(s);output r", "r = relu(a);s = relu(b);t = add(r, s);output t"},
    {"ReluOfProduct", "ab", "p = mul(a, b);r = relu(p);output r", "r = relu(a);s = relu(b);t = mul(r, s);output t"},
    {"MaximumTranslatedOnce", "abc", "m = max(a, b);s = add(m, c);output s", "s = add(a, c);m = max(s, b);output m"},
    {"MaximumOfDifferences", "abc", "m = max(a, b);s = sub(c, m);output s",
     "s = sub(c, a);t = sub(c, b);m = max(s, t);output m"},
    {"MaximumByWrongRelu", "ab", "m = max(a, b);output m", "d = sub(a, b);r = relu(d);m = add(a, r);output m"},
    {"ChoiceSwapped", "ab", "m = max(a, b);output m", "g = greater(b, a);m = select(g, a, b);output m"},
    {"ChoiceByDifference", "abc", "d = sub(a, b);m = select(d, a, c);output m",
     "g = greater(a, b);m = select(g, a, c);output m"},
    {"StepTimesSquare", "x", "z = sub(x, x);g = greater(x, z);s = sqr(x);r = mul(s, g);output r",
     "r = relu(x);output r"},
    {"AbsoluteIsNotX", "x", "n = scale(x, factor=-1);m = max(x, n);output m", "m = scale(x, factor=1);output m"},
    {"GeluIsNotRelu", "x", "g = gelu(x);output g", "g = relu(x);output g"},
    {"GeluIsNotSilu", "x", "g = gelu(x);output g", "g = silu(x);output g"},
    {"GeluIsNotHomogeneous", "x", "s = scale(x, factor=2);g = gelu(s);output g",
     "g = gelu(x);s = scale(g, factor=2);output s"},
    {"ExpOfMaximumIsNot", "ab", "m = max(a, b);e = exp(m);output e", "e = exp(a);f = exp(b);m = add(e, f);output m"},
    {"SoftmaxWithoutMaximum", "input x: f32[4, 8];", "e = exp(x);s = sum(e, dim=1);o = div(e, s);output o",
     "m = reduce_max(x, dim=1);y = sub(x, m);e = exp(y);f = exp(x);s = sum(f, dim=1);o = div(e, s);output o"},
    {"SoftmaxOfOtherDimension", "input x: f32[4, 4];", "e = exp(x);s = sum(e, dim=1);o = div(e, s);output o",
     "m = reduce_max(x, dim=0);y = sub(x, m);e = exp(y);s = sum(e, dim=0);o = div(e, s);output o"},
    {"MaximumAlongOtherDimension", "input x: f32[4, 4];",
     "m = reduce_max(x, dim=1);t = transpose(m, perm=[1, 0]);output t", "m = reduce_max(x, dim=0);output m"},
    {"ReluAfterTheLoop", kMatrices, "r = relu(X);Y = matmul(r, W);output Y",
     "Y = block(X, W, grid=[4], loop=2) {;x = in_iter(X, imap=[_], fmap=1);w = in_iter(W, imap=[1], fmap=0);"
     "p = matmul(x, w);s = accum(p, kind=sum);r = relu(s);Y = out_saver(r, omap=[1]);};output Y"},
    {"GeluInTheLoop", kMatrices, "p = matmul(X, W);Y = gelu(p);output Y",
     "Y = block(X, W, grid=[4], loop=2) {;x = in_iter(X, imap=[_], fmap=1);w = in_iter(W, imap=[1], fmap=0);"
     "p = matmul(x, w);g = gelu(p);s = accum(g, kind=sum);Y = out_saver(s, omap=[1]);};output Y"},
    {"OnlineSoftmaxWithoutRescaling", "input Q: f32[4, 4];input K: f32[4, 16];input V: f32[16, 4];",
     "s = matmul(Q, K);m = reduce_max(s, dim=1);d = sub(s, m);e = exp(d);l = sum(e, dim=1);p = div(e, l);"
     "O = matmul(p, V);output O",
     "O = block(Q, K, V, grid=[2], loop=4) {;q = in_iter(Q, imap=[0]);k = in_iter(K, imap=[_], fmap=1);"
     "v = in_iter(V, imap=[_], fmap=0);s = matmul(q, k);m = reduce_max(s, dim=1);d = sub(s, m);e = exp(d);"
     "p = matmul(e, v);n = accum_rescale(p, m);l = sum(e, dim=1);t = accum(l, kind=sum);o = div(n, t);"
     "O = out_saver(o, omap=[0]);};output O"},
    {"SumOfMaxima", "input x: f32[4, 8];", "m = reduce_max(x, dim=1);output m",
     "m = block(x, grid=[2], loop=4) {;t = in_iter(x, imap=[0], fmap=1);r = reduce_max(t, dim=1);"
     "a = accum(r, kind=sum);m = out_saver(a, omap=[0]);};output m"},
    {"ReluOfConvolution", "input X: f32[1, 2, 4, 4];input W: f32[2, 2, 3, 3];",
     "r = relu(X);a = conv2d(r, W, padding=1);output a", "a = conv2d(X, W, padding=1);r = relu(a);output r"},
    // What random numbers do not show: Z3 finds it.
    {"KinkFarAway", "ab", "r = relu(a);output r",
     "z = sub(a, a);e = exp(z);f = scale(e, factor=900);d = sub(a, f);k = relu(d);r = relu(a);s = add(r, k);output s"},
    {"KinkInACorner", "ab", "r = max(a, b);output r",
     "z = sub(a, a);e = exp(z);f = scale(e, factor=70);p = sub(a, f);q = sub(b, f);s = relu(p);t = relu(q);u = mul(s, "
     "t);"
     "m = max(a, b);r = add(m, u);output r"},
    {"RootOfSquareIsNotX", "x", "m = scale(x, factor=1);output m", "s = sqr(x);m = sqrt(s);output m"},
};

/// Programs that differ where equal numbers meet only, a set without volume.
inline const Pair kTies[] = {
    {"StepsAreStrict", "x", "z = sub(x, x);g = greater(x, z);h = greater(z, x);s = add(g, h);output s",
     "z = sub(x, x);e = exp(z);output e"},
    {"OnlyEqualNumbersTell", "ab", "g = greater(a, b);output g",
     "h = greater(b, a);z = sub(a, a);e = exp(z);n = sub(e, h);output n"},
    {"EqualNumbersInChoice", "abc", "g = greater(a, b);s = select(g, a, c);output s",
     "h = greater(b, a);s = select(h, c, a);output s"}};

}  // namespace strata
