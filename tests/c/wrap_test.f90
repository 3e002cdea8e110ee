! lathe_wrap(): arrays of every rank, and sections, share their memory with their tensors.
program wrap_test
  use lathe
  implicit none
  real(real64), target :: u(6, 2)
  real(real32), target :: v(2, 3, 4, 5)
  integer(int64), target :: labels(3)
  type(c_ptr) :: a, b
  integer :: failed = 0

  u = 0
  call lathe_check(lathe_wrap(u(2:6:2, 1), a))
  call lathe_check(lathe_wrap(v, b))
  call expect(a, [3_int64], [2_int64])
  call expect(b, [2_int64, 3_int64, 4_int64, 5_int64], [1_int64, 2_int64, 6_int64, 24_int64])
  call lathe_check(lathe_tensor_free(b))
  call lathe_check(lathe_wrap(u(:, 2:2), b))
  call expect(b, [6_int64, 1_int64], [1_int64, 0_int64])
  call lathe_check(lathe_tensor_free(b))

  labels = [1, 2, 3]
  call lathe_check(lathe_wrap(labels, b))
  call lathe_check(lathe_tensor_copy(b, a))
  if (maxval(abs(u(:, 1) - [real(real64) :: 0, 1, 0, 2, 0, 3])) > 0) failed = failed + 1
  call lathe_check(lathe_tensor_free(b))

  if (lathe_wrap(u(6:1:-1, 1), b) /= LATHE_BAD_SHAPE) failed = failed + 1
  if (index(lathe_text(lathe_last_error()), 'strides[0] is -1') == 0) failed = failed + 1
  write (*, '(i0, a, i0, a)') merge(1, 0, failed == 0), ' passed, ', merge(0, 1, failed == 0), ' failed, 0 skipped'
  if (failed > 0) error stop 1

contains

  subroutine expect(tensor, sizes, strides)
    type(c_ptr), intent(in) :: tensor
    integer(int64), intent(in) :: sizes(:), strides(:)
    integer(c_int32_t) :: ndim, d
    integer(c_int64_t) :: found
    call lathe_check(lathe_tensor_ndim(tensor, ndim))
    if (ndim /= size(sizes)) failed = failed + 1
    do d = 1, ndim
      call lathe_check(lathe_tensor_size(tensor, d - 1, found))
      if (found /= sizes(d)) failed = failed + 1
      call lathe_check(lathe_tensor_stride(tensor, d - 1, found))
      if (found /= strides(d)) failed = failed + 1
    end do
  end subroutine

end program wrap_test
