// RUN: %strata --strata-lower-tensors --split-input-file --verify-diagnostics %s -o /dev/null

// No hardware updates 128 bits in one step.
func.func @wide(%t: tensor<8xcomplex<f64>>, %i: index, %x: complex<f64>) {
  // expected-error @+1 {{unsupported: no atomic update of 128 bits but of sums}}
  %a = strata.atomic_rmw mul %x into %t[%i] : complex<f64>, tensor<8xcomplex<f64>>
  return
}
// -----
func.func @places(%p: i1, %a: tensor<8xf32>, %b: tensor<8xf32>, %i: index) -> f32 {
  // expected-error @+1 {{a tensor that lies nowhere, or in more than one place}}
  %t = arith.select %p, %a, %b : tensor<8xf32>
  %x = tensor.extract %t[%i] : tensor<8xf32>
  return %x : f32
}
// -----
func.func @shared() {
  // expected-error @+1 {{is in a function that is no kernel}}
  %t = strata.allocate_shared : tensor<8xf32>
  return
}
